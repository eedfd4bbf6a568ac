"""How a parameter follows from a config: from what stands under a key, or under several."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from posenc_models.config.settings import Setting, Settings, short


class KeyOrigin(Protocol):
    """Where a parameter is from."""

    def read(self, config: Settings, absent: str) -> Setting:
        """Return the value with its origin; `absent` says in words where the defaults of absent keys are from.

        Raises ValueError, in one line that names the key, for a value of another type.
        """


@dataclass(frozen=True)
class Key:
    """The value under a key, or under its other names; `default` where all are absent or null.

    Args:
        name: the key, with dots in its path.
        default: what the model's class takes for an absent key. A value must be of its type: a whole number, a number,
            true or false, a word, a list of whole numbers; where it is a pair, one number stands for both.
        others: other names of the key, such as older ones.
        least: the smallest whole number.
    """

    name: str
    default: object
    others: tuple[str, ...] = ()
    least: int = 1

    def read(self, config: Settings, absent: str) -> Setting:
        """Return the value under the first of its names that has one."""
        for name in (self.name, *self.others):
            value = _under(config, name)
            if value is not None:
                return Setting(self.fit(Setting(value, config.path_of(name))), config.path_of(name))
        return Setting(self.default, absent)

    def fit(self, setting: Setting) -> object:
        """Return a value as it must be; raise ValueError where it is not."""
        if isinstance(self.default, tuple):
            return self.pair(setting) if len(self.default) == 2 else self.wholes(setting)
        if isinstance(self.default, (bool, str)):
            if not isinstance(setting.value, type(self.default)):
                expected = "true or false" if isinstance(self.default, bool) else "a word"
                raise ValueError(f"{setting.path} must be {expected}, got {short(setting.value)}")
            return setting.value
        return setting.number() if isinstance(self.default, float) else self.whole(setting)

    def pair(self, setting: Setting) -> tuple[int, ...]:
        """Return two whole numbers; a single number stands for both."""
        pair = self.wholes(setting) if isinstance(setting.value, list) else (setting.whole(),) * 2
        if len(pair) != 2:
            raise ValueError(f"{setting.path} must be a whole number, or two, got {short(setting.value)}")
        return pair

    def wholes(self, setting: Setting) -> tuple[int, ...]:
        """Return the whole numbers of a list, each as `whole` reads it; raise ValueError for anything but a list."""
        return tuple(map(self.whole, setting.items()))

    def whole(self, setting: Setting) -> int:
        """Return a whole number that may be as small as `least`."""
        value = setting.value
        # below 1, which `Setting.whole` refuses: a padding row 0, or -1 for "none"
        if isinstance(value, int) and not isinstance(value, bool) and self.least <= value < 1:
            return value
        return setting.whole()


@dataclass(frozen=True)
class Fixed:
    """A value that all models of a type have, and that no key says."""

    value: object

    def read(self, config: Settings, absent: str) -> Setting:
        """Return the value."""
        return Setting(self.value, absent)


@dataclass(frozen=True)
class Made:
    """A value that is computed from others.

    Args:
        words: how, for its origin, with a place for each source, as in "{} / {}".
        make: the function from the values of the sources to the value.
        sources: where these values are from.
    """

    words: str
    make: Callable[..., object]
    sources: tuple[KeyOrigin, ...]

    def read(self, config: Settings, absent: str) -> Setting:
        """Return the computed value; where all its sources are defaults, it is a default, too."""
        settings = [source.read(config, absent) for source in self.sources]
        is_default = all(setting.path == absent for setting in settings)
        places = (_default(s.value) if s.path == absent else s.path for s in settings)
        words = absent if is_default else self.words.format(*places)
        try:
            return Setting(self.make(*(setting.value for setting in settings)), words)
        except ValueError as error:
            raise ValueError(f"{words}: {error}") from None


def _default(value: object) -> str:
    shown = value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value
    return f"{shown} by default"


def _under(config: Settings, name: str) -> object:
    value: object = config.content
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def quotient(width: KeyOrigin, parts: KeyOrigin) -> Made:
    """Return the width of each of several equal parts."""

    def divide(whole: int, by: int) -> int:
        if whole % by:
            raise ValueError(f"{whole} features are not a multiple of {by} heads")
        return whole // by

    return Made("{} / {}", divide, (width, parts))


def grid(image: int | tuple[int, int], patch: int | tuple[int, int], key: str = "image_size") -> Made:
    """Return the patches of an image, down and across; a single number is the side of a square."""

    def count(sides: tuple[int, int], patch: tuple[int, int]) -> tuple[int, int]:
        return sides[0] // patch[0], sides[1] // patch[1]  # a patch that does not fit is cut off

    sides = (Key(key, _pair(image)), Key("patch_size", _pair(patch)))
    return Made("{} / {}", count, sides)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def plus(source: KeyOrigin, more: int) -> Made:
    """Return a whole number with another added to it."""
    return Made(f"{{}} {'-' if more < 0 else '+'} {abs(more)}", lambda value: value + more, (source,))


def minus(source: KeyOrigin, less: KeyOrigin) -> Made:
    """Return the difference of two whole numbers."""
    return Made("{} - ({})", lambda whole, part: whole - part, (source, less))


def item(source: KeyOrigin, place: int) -> Made:
    """Return an item of a list; None beyond its end."""
    return Made("{}[" + str(place) + "]", lambda items: items[place] if place < len(items) else None, (source,))
