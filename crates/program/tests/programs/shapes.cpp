// Names that need demangling.
#include <cstdio>

namespace shapes {
template <typename T> struct Box {
    T value;
    __attribute__((noinline)) T doubled(int times) const {
        return value * times; // MARK doubled
    }
};
__attribute__((noinline)) int area(const Box<int> &box, const char *) {
    return box.doubled(2); // MARK area
}
} // namespace shapes

int main(int argc, char **) {
    shapes::Box<int> box{argc};
    std::printf("%d\n", shapes::area(box, ""));
}
