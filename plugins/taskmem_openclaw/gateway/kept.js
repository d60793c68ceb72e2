// What is kept of sessions: they come and go unasked, so only the newest stay.

export class Kept extends Map {
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
