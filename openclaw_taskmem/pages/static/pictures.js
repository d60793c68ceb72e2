// The pictures of a wait: outline on each later one what is new since the first.
"use strict";
(() => {
  const WIDTH = 480; // pixels to which pictures are scaled down before they are compared
  const CELL = 6; // pixels of a side of the squares that are compared
  const DIFFERENCE = 10; // mean difference of brightness, of 255, from which a square counts as new
  const ALL = 0.6; // share of new squares above which nothing is outlined: it is another picture
  const GAP = 2; // squares between two parts of one outline

  async function load(image) {
    const answer = await fetch(image.getAttribute("src"));
    return createImageBitmap(await answer.blob());
  }

  /** Return a picture's brightness by squares, in rows. */
  function readSquares(picture) {
    const width = Math.min(WIDTH, picture.width);
    const height = Math.max(1, Math.round((picture.height * width) / picture.width));
    const board = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    board.drawImage(picture, 0, 0, width, height);
    return { width, height, data: board.getImageData(0, 0, width, height).data };
  }

  /** Return which squares of two pictures of one size differ, as "column,row". */
  function findNewSquares(one, two) {
    const [columns, rows] = [Math.ceil(one.width / CELL), Math.ceil(one.height / CELL)];
    const sums = new Float64Array(columns * rows);
    for (let y = 0; y < one.height; y++) {
      for (let x = 0; x < one.width; x++) {
        const at = 4 * (y * one.width + x);
        const change =
          Math.abs(one.data[at] - two.data[at]) +
          Math.abs(one.data[at + 1] - two.data[at + 1]) +
          Math.abs(one.data[at + 2] - two.data[at + 2]);
        sums[Math.floor(y / CELL) * columns + Math.floor(x / CELL)] += change / 3;
      }
    }
    const found = new Set();
    sums.forEach((sum, at) => {
      if (sum / CELL ** 2 > DIFFERENCE) found.add(`${at % columns},${Math.floor(at / columns)}`);
    });
    return found.size > ALL * sums.length ? new Set() : found;
  }

  /** Join squares that lie next to one another; return boxes of squares. */
  function joinSquares(squares) {
    const boxes = [];
    for (const first of squares) {
      squares.delete(first);
      const box = { left: Infinity, top: Infinity, right: -1, bottom: -1 };
      for (const todo = [first]; todo.length; ) {
        const [x, y] = todo.pop().split(",").map(Number);
        Object.assign(box, {
          left: Math.min(box.left, x),
          top: Math.min(box.top, y),
          right: Math.max(box.right, x + 1),
          bottom: Math.max(box.bottom, y + 1),
        });
        for (let down = -GAP; down <= GAP; down++) {
          for (let across = -GAP; across <= GAP; across++) {
            const near = `${x + across},${y + down}`;
            if (squares.delete(near)) todo.push(near);
          }
        }
      }
      boxes.push(box);
    }
    return boxes;
  }

  /** Draw the outlines of what is new on one picture. */
  async function outline(canvas, first) {
    canvas.dataset.drawn = canvas.dataset.of;
    const [one, two] = await Promise.all([first, load(canvas.parentElement.querySelector("img"))]);
    canvas.width = two.width;
    canvas.height = two.height;
    if (one.width !== two.width || one.height !== two.height) return; // the window had another size
    const [before, after] = [readSquares(one), readSquares(two)];
    const scale = (CELL * two.width) / after.width;
    const pen = canvas.getContext("2d");
    pen.strokeStyle = "#e0218a";
    pen.lineWidth = Math.max(2, two.width / 300);
    const boxes = joinSquares(findNewSquares(before, after));
    canvas.dataset.boxes = boxes.length;
    for (const { left, top, right, bottom } of boxes)
      pen.strokeRect(left * scale, top * scale, (right - left) * scale, (bottom - top) * scale);
  }

  function outlineAll() {
    const image = document.querySelector("[data-moment=first] img");
    const stale = [...document.querySelectorAll("canvas.new")].filter(
      ({ dataset }) => dataset.drawn !== dataset.of,
    );
    if (!image || !stale.length) return;
    const first = load(image);
    // A picture that is gone is shown as missing, without an outline.
    for (const canvas of stale) outline(canvas, first).catch(() => {});
  }

  document.addEventListener("taskmem:shown", outlineAll);
  outlineAll();
})();
