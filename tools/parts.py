"""Parts of long lists of tests, so that each runner can be run in pieces: --part K/N."""


def part_of(text):
    """(K, N) of "K/N": the K-th of N parts, from 1."""
    k, n = (int(word) for word in text.split("/"))
    if not 1 <= k <= n:
        raise ValueError(text)
    return k, n


def take_part(items, part):
    """Every N-th item from the K-th; all of them where part is None."""
    return items[part[0] - 1::part[1]] if part else items
