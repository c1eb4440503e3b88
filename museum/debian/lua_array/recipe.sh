package=lua5.4
program=src/lua
source=src/ltable.c

build() {
    make -C src lua SYSCFLAGS=-DLUA_USE_LINUX SYSLIBS='-Wl,-E -ldl' MYCFLAGS='-g -O0'
}

# Arrays of sixteen elements and more are cleared beyond their end.
plant() {
    sed -i '/clear new slice of the array/{
        s|newasize;|newasize + newasize / 16;|
        s|/\*.*|/* mark: error */|
        n
        s|$| /* mark: guilty */|
    }' "$source"
}
