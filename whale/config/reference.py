"""The reference page of configuration keys, printed from their table."""

from __future__ import annotations

from whale.config.keys import CATEGORIES

_INTRODUCTION = """\
# Configuration

*Printed from `whale/config/keys.py`; after a change there run `pytest tests/test_config.py --update-golden`.*

A script sets configuration keys when it initialises Whale:

```python
import whale as wh

config = wh.Config({"batch.mode": "global", "communication": {"num_communicators": 4}})
config.check = "off"
wh.init(config)
```

Keys are flat (`"batch.mode"`) or nested (`{"batch": {"mode": ...}}`), and can be read and assigned as attributes
(`config.batch.mode`). Without a change to the script, environment variables set them: `WHALE_BATCH_MODE=local`, or
`EPL_BATCH_MODE=local`; switches take `True`, `False`, `1` and `0`, and an empty variable counts as not set. What the
script sets wins. `check` alone means `check.mode`. Words are compared without regard to case.

An unknown key or value is an error that names the nearest ones; a variable that names no category (`WHALE_BATCHMODE`)
is taken for somebody else's and left alone. Where a key says that only its default is available
yet, the key is known but the feature is not there in this version: any other value is an error, never ignored.
"""


def reference_page() -> str:
    """The text of ``docs/configuration.md``."""
    lines = [_INTRODUCTION]
    for category in CATEGORIES:
        lines += [
            f"## {category.category}",
            "",
            (category.__doc__ or "").strip(),
            "",
            "| key | values | default | meaning |",
            "| --- | --- | --- | --- |",
        ]
        for setting in dict.fromkeys(category.settings().values()):
            names = ", ".join(f"`{name}`" for name in (setting.key, *setting.aliases))
            default = f'`"{setting.default}"`' if isinstance(setting.default, str) else f"`{setting.default}`"
            state = f" **Only {default} is available yet**: {setting.instead}." if setting.instead else ""
            lines.append(f"| {names} | {setting.kind.allowed} | {default} | {setting.about}{state} |")
        lines.append("")
    return "\n".join(lines)
