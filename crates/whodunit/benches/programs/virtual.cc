// Virtual calls whose targets change all the time: indirect branches and returns.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

struct Node {
    virtual ~Node() = default;
    virtual uint64_t evaluate(uint64_t x) const = 0;
};

struct Constant : Node {
    uint64_t value;
    explicit Constant(uint64_t value) : value(value) {}
    uint64_t evaluate(uint64_t) const override { return value; }
};

struct Argument : Node {
    uint64_t evaluate(uint64_t x) const override { return x; }
};

struct Binary : Node {
    std::unique_ptr<Node> left, right;
    Binary(std::unique_ptr<Node> left, std::unique_ptr<Node> right) : left(std::move(left)), right(std::move(right)) {}
};

struct Sum : Binary {
    using Binary::Binary;
    uint64_t evaluate(uint64_t x) const override { return left->evaluate(x) + right->evaluate(x); }
};

struct Product : Binary {
    using Binary::Binary;
    uint64_t evaluate(uint64_t x) const override { return left->evaluate(x) * right->evaluate(x) + 1; }
};

struct Choice : Binary {
    using Binary::Binary;
    uint64_t evaluate(uint64_t x) const override { return x & 64 ? left->evaluate(x ^ 21) : right->evaluate(x + 5); }
};

static uint64_t state = 12345;

static uint64_t next()
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static std::unique_ptr<Node> grow(int depth)
{
    if (depth == 0)
        return next() % 2 ? std::unique_ptr<Node>(new Argument) : std::unique_ptr<Node>(new Constant(next()));
    auto left = grow(depth - 1), right = grow(depth - 1);
    switch (next() % 3) {
    case 0: return std::make_unique<Sum>(std::move(left), std::move(right));
    case 1: return std::make_unique<Product>(std::move(left), std::move(right));
    default: return std::make_unique<Choice>(std::move(left), std::move(right));
    }
}

int main()
{
    std::vector<std::unique_ptr<Node>> trees;
    for (int i = 0; i < 40; i++)
        trees.push_back(grow(9));
    std::function<uint64_t(uint64_t, uint64_t)> mix = [](uint64_t a, uint64_t b) { return (a ^ b) * 31; };
    uint64_t result = 0;
    for (uint64_t round = 0; round < 600000; round++)
        result = mix(result, trees[round % trees.size()]->evaluate(round));
    std::printf("%llu\n", static_cast<unsigned long long>(result));
}
