"""Things that move on a scene for ever, and mean nothing."""

from __future__ import annotations

import time
import tkinter as tk
from random import Random

from tests.support.scenes_stage import FONT, Stage

BLUE = "#2266cc"
VIDEO = (40, 30)
ZOOM = 8
FRAMES = 24
FRAME_MS = 83


def clock(stage: Stage) -> None:
    """Show the time in the corner of the window, and each second the next."""
    face = stage.label("")
    face.place(relx=1, x=-8, y=6, anchor="ne")
    stage.every(1000, lambda: face.config(text=time.strftime("%H:%M:%S")))


def spinner(stage: Stage, x: int, y: int, size: int = 44) -> tk.Canvas:
    """Turn an arc ten times a second; removing the canvas ends that."""
    canvas = tk.Canvas(stage.root, width=size, height=size, highlightthickness=0)
    canvas.place(x=x, y=y)
    width = max(2, size // 9)
    box = (width, width, size - width, size - width)
    arc = canvas.create_arc(*box, extent=100, style="arc", width=width, outline=BLUE)
    turned = iter(range(0, 1_000_000_000, 37))

    def turn() -> bool:
        if canvas.winfo_exists() and canvas.find_withtag(arc):
            canvas.itemconfig(arc, start=-next(turned) % 360)
            return True
        return False

    stage.every(100, turn)
    return canvas


def video(stage: Stage, parent: tk.Misc) -> tk.Label:
    """Show noise of 320x240 twelve times a second."""
    films = [_frame(stage, parent) for _ in range(FRAMES)]
    face = tk.Label(parent, bd=0)

    def show() -> None:
        shown = stage.seeded.choice([each for each in films if each is not face.film])
        face.film = shown
        face.config(image=shown)

    face.film = None
    stage.every(FRAME_MS, show)
    return face


def player(stage: Stage) -> tk.Toplevel:
    """Play that video in a window of its own, in the lower right corner."""
    opened = tk.Toplevel(stage.root)
    opened.title("Player")
    right = opened.winfo_screenwidth() - VIDEO[0] * ZOOM - 20
    low = opened.winfo_screenheight() - VIDEO[1] * ZOOM - 60
    opened.geometry(f"+{right}+{low}")
    video(stage, opened).pack()
    return opened


def field(stage: Stage, **place: int) -> tk.Text:
    """Show a field with a blinking caret."""
    text = tk.Text(stage.root, font=(FONT, 11), insertontime=500, insertofftime=500)
    text.place(**place)
    text.focus_force()
    return text


def _frame(stage: Stage, parent: tk.Misc) -> tk.PhotoImage:
    width, height = VIDEO
    head = f"P6 {width} {height} 255\n".encode()
    pixels = b"".join(_greyish(stage.seeded) for _ in range(width * height))
    return tk.PhotoImage(master=parent, data=head + pixels, format="ppm").zoom(ZOOM)


def _greyish(random: Random) -> bytes:
    # Pale, because the encoder mixes strong colours to any hue.
    grey = random.randrange(40, 190)
    return bytes((grey, grey, grey + random.randrange(30)))
