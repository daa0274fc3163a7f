"""How a task and its observations are written for a policy, and where a turn of the policy ends."""

from dataclasses import dataclass

from . import tokenizer as tok


@dataclass(frozen=True)
class Format:
    """Text around prompts and observations, and the tokens that end a turn.

    The tiny models use `TINY`; a chat model gets its own from its chat template (`models.hf`).
    """

    prompt_before: str = tok.USER
    prompt_after: str = tok.BOT
    obs_before: str = tok.OBS
    obs_after: str = tok.OBS_END
    stops: tuple[str, ...] = (tok.ACT_END, tok.END)
    end: str = ""  # what a chat template writes behind an answer; a turn that was cut lacks it
    chat: bool = False  # True: the world's `render_chat()` instructions come first

    def prompt(self, task: str, instructions: str = "") -> str:
        """The text that the first turn answers."""
        lead = instructions + "\n" if self.chat and instructions else ""
        return f"{self.prompt_before}{lead}{task}{self.prompt_after}"

    def heard(self, text: str) -> str:
        """What the world hears of a turn: a chat model's end-of-turn token is not part of an action, and stands for
        `<end>` behind an answer."""
        ended = next((stop for stop in self.stops if self.chat and text.endswith(stop)), "")
        if not ended:
            return text
        text = text.removesuffix(ended).rstrip()
        return text if text.endswith(tok.ACT_END) else text + tok.END

    def observation(self, text: str, whole: bool = True) -> str:
        """The text that is forced after a turn; whole: the turn came to its end, it was not cut."""
        return f"{'' if whole else self.end}{self.obs_before}{text}{self.obs_after}"


TINY = Format()
