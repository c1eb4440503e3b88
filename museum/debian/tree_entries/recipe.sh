package=tree
program=tree
source=tree.c

build() {
    make tree CFLAGS='-g -O1 -std=c11 -D_LARGEFILE64_SOURCE -D_FILE_OFFSET_BITS=64'
}

# The list of a directory's entries grows when it has five entries more than there is room for.
plant() {
    sed -i '/if (p == (ne-1)) dl =/{
        s|ne-1|ne+4|
        s|$| /* mark: error */|
        n
        s|$| /* mark: guilty */|
    }' "$source"
}
