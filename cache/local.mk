# cache
