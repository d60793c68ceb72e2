"""The protocols of models that Claude Code and Codex speak, turned into chat messages and back.

Sources: https://docs.claude.com/en/api/messages-streaming and
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from taskmem_resumebench.servers import ToolCall as Call

Document = dict[str, Any]
Answer = str | Sequence[Call]


class Dialect(NamedTuple):
    """How one protocol writes a request and an answer."""

    read: Callable[[Document], Document]
    """Returns a request as one of chat completions."""
    write: Callable[[int, Any], Iterator[Document]]
    """Yields the events of an answer, which has a number."""


def find_dialect(path: str) -> Dialect | None:
    """The protocol of an address; None: chat completions."""
    end = path.partition("?")[0].rpartition("/")[2]
    return {"messages": MESSAGES, "responses": RESPONSES}.get(end)


def text_of(content: object) -> str:
    """The texts in the content of a message or of a tool's result."""
    if isinstance(content, list):
        return "\n".join(each.get("text", "") for each in content if isinstance(each, dict))
    return content if isinstance(content, str) else json.dumps(content)


# --- Claude Code -------------------------------------------------------------


def read_messages(body: Document) -> Document:
    """A request of the Messages protocol."""
    messages = [each for message in body["messages"] for each in split_message(message)]
    return {"messages": messages, "tools": [name_tool(each["name"]) for each in body["tools"]]}


def split_message(message: Document) -> Iterator[Document]:
    """One message with tool results is several in chat completions."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [each["text"] for each in blocks if each["type"] == "text"]
    for each in blocks:
        if each["type"] == "tool_result":
            yield {"role": "tool", "content": text_of(each.get("content"))}
    calls = [each for each in blocks if each["type"] == "tool_use"]
    if texts or calls:
        role = "assistant" if message["role"] == "assistant" else "user"
        yield {"role": role, "content": "\n".join(texts), "tool_calls": calls}


def write_messages(number: int, answer: Answer) -> Iterator[Document]:
    """An answer of the Messages protocol."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "scripted"}
    yield {"type": "message_start", "message": {**head, "content": [], "usage": usage}}
    calls = () if isinstance(answer, str) else answer
    parts = [
        (
            {"type": "tool_use", "id": f"toolu_{number}_{n}", "name": call.tool, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(call.args)},
        )
        for n, call in enumerate(calls)
    ]
    if isinstance(answer, str):
        parts = [({"type": "text", "text": ""}, {"type": "text_delta", "text": answer})]
    for n, (block, delta) in enumerate(parts):
        yield {"type": "content_block_start", "index": n, "content_block": block}
        yield {"type": "content_block_delta", "index": n, "delta": delta}
        yield {"type": "content_block_stop", "index": n}
    reason = "tool_use" if calls else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
    yield {"type": "message_stop"}


# --- Codex -------------------------------------------------------------------


def read_responses(body: Document) -> Document:
    """A request of the Responses protocol."""
    tools = [
        name_tool(f"{each['name']}__{inner['name']}" if inner is not each else each["name"])
        for each in body["tools"]
        for inner in each.get("tools") or [each]
        if "name" in each
    ]
    return {"messages": [*map(read_item, body["input"])], "tools": tools}


def read_item(item: Document) -> Document:
    """One item of a conversation."""
    match item["type"]:
        case "message":
            role = "assistant" if item["role"] == "assistant" else "user"
            return {"role": role, "content": text_of(item["content"])}
        case "function_call_output" | "custom_tool_call_output":
            return {"role": "tool", "content": text_of(item["output"])}
        case _:
            return {"role": "assistant", "content": "", "tool_calls": [item]}


def write_responses(number: int, answer: Answer) -> Iterator[Document]:
    """An answer of the Responses protocol."""
    items = [{**write_item(each), "id": f"item_{number}"} for each in split_answer(answer)]
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    head = {"id": f"resp_{number}"}
    yield {"type": "response.created", "response": head}
    for n, item in enumerate(items):
        item["call_id"] = f"call_{number}_{n}"
        for kind in ("added", "done"):
            yield {"type": f"response.output_item.{kind}", "output_index": n, "item": item}
    yield {"type": "response.completed", "response": {**head, "output": items, "usage": usage}}


def split_answer(answer: Answer) -> Sequence[str | Call]:
    """The text, or each call."""
    return [answer] if isinstance(answer, str) else answer


def write_item(part: str | Call) -> Document:
    """One item of an answer; the tools of an MCP server are in a namespace of its own."""
    if isinstance(part, str):
        content = [{"type": "output_text", "text": part, "annotations": []}]
        return {"type": "message", "role": "assistant", "content": content}
    if part.tool == "apply_patch":  # of free text
        return {"type": "custom_tool_call", "name": part.tool, **part.args}
    space, _, name = part.tool.rpartition("__")
    called = {"name": name, "namespace": space} if space else {"name": name}
    return {"type": "function_call", "arguments": json.dumps(part.args), **called}


def name_tool(name: str) -> Document:
    """A tool as chat completions list it."""
    return {"function": {"name": name}}


MESSAGES = Dialect(read_messages, write_messages)
RESPONSES = Dialect(read_responses, write_responses)
