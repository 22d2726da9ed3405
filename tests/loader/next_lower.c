/* next_lower.c - the function that next_upper.c wraps. */
__attribute__((visibility("default"))) int next_function(int depth);

int next_function(int depth)
{
    return 100 + depth;
}
