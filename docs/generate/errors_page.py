"""docs/reference/errors.md: every error that a router makes itself, from the table it answers from."""

import re

from markdown_table import code, markdown_table

from workslice_router.openai_errors import ERRORS

INTRODUCTION = """# Errors of the router

Every error has the shape of OpenAI's API, so that its clients raise their usual exceptions:

```json
{"error": {"message": "…", "type": "invalid_request_error", "param": null, "code": "model_not_found"}}
```

`code` and the header `x-workslice-reason` hold the reason of this table. Answers that another try may change carry `Retry-After`. Errors
that an engine makes (a wrong `temperature`, for example) pass through as they are, without the header. What to do about each:
[troubleshooting](../troubleshooting.md#errors-of-the-endpoint).

"""


def render_errors_page() -> str:
    """The page as Markdown."""
    rows = (
        (str(kind.status), code(reason.value), code(kind.type), re.sub(r"{(\w+)(:[^}]*)?}", r"*\1*", kind.message))
        for reason, kind in ERRORS.items()
    )
    return INTRODUCTION + markdown_table(("Status", "Reason", "Type", "Message"), rows)
