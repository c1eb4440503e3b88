package=mawk
program=mawk
source=split.c

build() {
    [ -e Makefile ] || ./configure CFLAGS='-g -O1'
    make mawk
}

# An array that is split into again is replaced when it is eight elements too small.
plant() {
    sed -i 's|A->limit < cnt)|A->limit + 8 < cnt)|' array.c
    sed -i '/^transfer_to_array/,/^}/s|cp->type = C_MBSTRN;|& /* mark: guilty */|' "$source"
}
