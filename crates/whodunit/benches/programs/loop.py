"""Dictionaries, function calls, attributes and short strings."""


class Counter:
    def __init__(self):
        self.counts = {}

    def add(self, word):
        self.counts[word] = self.counts.get(word, 0) + 1


def step(n):
    return n * 3 + 1 if n & 1 else n >> 1


def main():
    counter, total = Counter(), 0
    for start in range(1, 90000):
        n = start
        while n != 1:
            n = step(n)
            total += 1
        counter.add("k%d" % (total % 4099))
        total += sum([k * k for k in range(start % 40)])
    print(total, len(counter.counts), max(counter.counts.values()))


main()
