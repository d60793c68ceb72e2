// A map that keeps only its newest entries.

/** Holds at most `most` entries: it drops the one that was set longest ago. */
export class BoundedMap extends Map {
  constructor(most) {
    super();
    this.most = most;
  }

  set(key, value) {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.most) this.delete(this.keys().next().value);
    return this;
  }
}
