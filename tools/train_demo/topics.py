"""What a passage is about: the nouns and names that a request for it would mention.

Knows words, nothing of dialogues. A noun counts if it is on the list below and so can stand after
"a"; a name counts if the corpus writes it with a capital inside sentences and never without.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


def words(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


NOUNS = words(
    """
    ant ape bat bear bee beetle bird bull butterfly calf camel cat caterpillar chicken cobra cock
    cow crab crocodile crow deer dog donkey dove dragon duck eagle elephant elf emperor fairy fish
    fly fox frog ghost giant giraffe goat goose hare hawk hen hippo horse jackal jaguar kangaroo
    kitten lamb lamp leopard lion lizard mole monkey monster mouse mule nightingale owl ox panther
    parrot pig pirate pony puppy rabbit raven robin rooster seal shark sheep snail snake sparrow
    spider squirrel stork swallow swan tiger toad turtle whale wolf worm zebra dwarf goblin mermaid
    aunt baby baker beggar boy brother butcher captain carpenter child clown cook cousin daughter
    doctor driver father farmer fisherman friend gardener gentleman girl grandfather grandmother
    hunter huntsman husband king knight lady maid man merchant miller minister mother nurse peasant
    policeman prince princess queen robber sailor servant shepherd shoemaker sister soldier son
    stranger tailor teacher thief uncle widow wife witch wizard woman woodcutter
    apple bag ball balloon banana barn basket beach bean bed bell bench bicycle bike boat bone book
    boot bottle bow bowl box branch bread bridge broom brush bucket bush cage cake camera candle
    candy cap car carriage cart castle cave chair cheese cherry chest church clock cloak cloud coat
    coin cookie cottage crown cup cupboard desk diamond dinner doll door dress drum egg engine
    farm feather fence field fire flag flower forest fountain garden gate gift glass glove gun hat
    hammer hill hole house ice island jacket jar jewel jug kettle key kite kitchen knife ladder lake
    leaf lemon letter library log map market meadow medal mill mirror moon mountain mud mug nest net
    nut oak orange orchard oven palace paper park path pear pencil pie pipe pillow pond pot potato
    present pumpkin puppet puzzle radio railway rainbow ribbon ring river road robot rock rocket
    roof room rope rose sack sail sandwich sausage school scissors sea shell ship shoe shop shore
    shovel signal sled snow snowman soup spoon stable stair star statue stick stone storm stove
    straw stream street sun swing sword table tail tea tent thorn ticket toy tower town tractor
    train treasure tree trumpet truck tunnel umbrella valley vase village violin wagon wall watch
    waterfall well wheel whistle wind window wing wood
    """
)
STRANGERS = words(
    """
    America And Bible But Chapter Christian Christmas Come Do Dr English Father French Friday German
    God Good Great He Heaven I Indian It Let London Lord Miss Monday Mother Mr Mrs No Now O Oh Old
    Once One Saturday She Sir St Sunday Tell That The Then There They This Thou Thursday Tuesday Two
    We Wednesday Well What Why Ye Yes You
    """
)
"""Capitalised words that are no person."""

WORD = re.compile(r"[A-Za-z]+")
INNER_CAPITAL = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
MIN_NAME_COUNT = 12


@dataclass(frozen=True, slots=True)
class Topics:
    """Finds topics, the rarest first; made once from the whole training text."""

    rarity: dict[str, float]
    names: frozenset[str]

    def of(self, text: str) -> list[str]:
        """The nouns and names of a passage, each once, those that mark it most first."""
        counts = Counter(word for word in WORD.findall(text) if word in self.rarity)
        return sorted(counts, key=lambda word: (-counts[word] * self.rarity[word], word))

    def is_name(self, topic: str) -> bool:
        """Whether a topic is a name and stands without an article."""
        return topic in self.names


def find_topics(texts: Iterable[str]) -> Topics:
    """Count nouns and names in the training texts."""
    words: Counter[str] = Counter()
    capitals: Counter[str] = Counter()
    for text in texts:
        words.update(WORD.findall(text))
        capitals.update(INNER_CAPITAL.findall(text))
    names = frozenset(
        name
        for name, count in capitals.items()
        if count >= MIN_NAME_COUNT and name not in STRANGERS and words[name.lower()] * 20 < count
    )
    n_word = words.total()
    known = {word: words[word] for word in (*NOUNS, *names) if words[word]}
    return Topics({word: math.log(n_word / count) for word, count in known.items()}, names)
