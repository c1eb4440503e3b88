// Variables of the kinds that C++ adds to C, and facts about them. Fails in a method.
#include "facts.h"
#include <string>

namespace shop {
int stock = 3; // MARK stock
namespace {
int secret = 4;
}
inline int shared_inline = 5;
struct Base {
    int base_id = 6;
    virtual int price(int factor) = 0;
};
template <typename T> struct Shelf {
    static T capacity;
    T used = 1;
};
template <typename T> T Shelf<T>::capacity = 9;

class Item : public Base {
public:
    static int made;
    static inline long inline_made = 12;
    enum class Kind : unsigned char { Small, Large } kind = Kind::Large;
    Shelf<long> shelf;
    std::string label = "a label";
    int &linked;
    explicit Item(int &link) : linked(link) {}
    __attribute__((noipa)) int price(int factor) override;
};
int Item::made = 8; // MARK made
thread_local int per_thread = 13;
} // namespace shop

int stock = 100;
int *volatile nowhere;

__attribute__((noipa)) int shop::Item::price(int factor) {
    int &alias = shop::stock;
    static int asked;
    asked++;
    PLACE(shop::stock);
    PLACE(shop::secret);
    PLACE(shop::shared_inline);
    PLACE(shop::Item::made);
    PLACE(Item::inline_made);
    PLACE(shop::Shelf<long>::capacity);
    PLACE(shop::per_thread);
    PLACE(alias);
    PLACE(asked);
    PLACE(this->base_id);
    PLACE(base_id);
    PLACE(kind);
    PLACE(shelf.used);
    PLACE(linked);
    PLACE(stock);
    PLACE(::stock);
    VALUE(kind, "Large");
    VALUE(label, "\"a label\"");
    VALUE(shelf.used, "1");
    VALUE(alias, "3");
    VALUE(factor, "2");
    VALUE(this->linked, "100");
    *nowhere = factor; // MARK fault
    __asm__ volatile("" ::"r"(factor), "r"(&alias), "r"(this));
    return factor + alias;
}

int main(int argc, char **argv) {
    if (argc < 3) return 93;
    state_facts_in(argv[2]);
    shop::Item item(stock);
    return item.price(2);
}
