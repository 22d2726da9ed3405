# The errors that cuda.h documents for each function: X("cuMemMap", true, "INVALID_VALUE INVALID_DEVICE ...")
# for every declaration with a `\return' list. The second is whether it "may also return error codes from previous,
# asynchronous launches" (\notefnerr).
/^[ \t]*\/\*\*/ { codes = " "; asynchronous = "false"; returns = 0 }
/\\return/ { returns = 1 }
/\\notefnerr/ { asynchronous = "true" }
/\\note|\\sa|\\par|\\param/ { returns = 0 }
returns {
    line = $0
    while (match(line, /CUDA_(ERROR_[A-Z0-9_]+)/)) {
        code = substr(line, RSTART + 11, RLENGTH - 11)
        line = substr(line, RSTART + RLENGTH)
        if (code != "" && index(codes, " " code " ") == 0)
            codes = codes code " "
    }
}
match($0, /CUresult CUDAAPI cu[A-Za-z0-9_]+\(/) && /^(__CUDA_DEPRECATED )?CUresult/ {
    name = substr($0, RSTART + 17, RLENGTH - 18)
    sub(/_v[0-9]+$/, "", name)
    if (codes != " " && !(name in seen)) {
        seen[name] = 1
        sub(/^ /, "", codes)
        sub(/ $/, "", codes)
        printf "X(\"%s\", %s, \"%s\")\n", name, asynchronous, codes
    }
    codes = " "
    asynchronous = "false"
}
