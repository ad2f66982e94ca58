/**
 * Reference randomizers for devices: a value and random bytes in, a message out.
 *
 * They do what the Python programs of a deployment do, draw for draw, and run in browsers and in
 * Node. A `program` is the field of that name in deployment.json. `npm test -- vectors.json` checks
 * them with a file of test vectors, which `shuffle-accountant deployment vectors` writes.
 *
 * No number is rounded: draws are whole numbers below 2^53, and what could be larger is a BigInt.
 */

/** What a device has to know; `fit` is a number of draws of 2^53. */
export type Program =
  | { kind: "randomized-response"; categories: number; fit: number }
  | { kind: "rappor"; categories: number; fit: number }
  | { kind: "subset-selection"; categories: number; fit: number; size: number }
  | { kind: "local-hashing"; categories: number; fit: number; buckets: number }
  | { kind: "hadamard-response"; categories: number; fit: number; columns: number };

/** A category or column; a sorted set, or a seed and a bucket; one bit for each category. */
export type Message = number | number[] | boolean[];

/** Returns as many random bytes as asked for, fresh ones at each call. */
export type Bytes = (count: number) => Uint8Array;

const RANGE = 2 ** 53;
const WORD = (1n << 64n) - 1n;

/** Bytes of the system's cryptographic source (WebCrypto). */
export function systemBytes(count: number): Uint8Array {
  return globalThis.crypto.getRandomValues(new Uint8Array(count));
}

/** Uniform whole numbers from random bytes. */
class Draws {
  constructor(private readonly bytes: Bytes) {}

  /** A uniform number in 0 ... 2^53 - 1: eight bytes, most significant first, without 11 bits. */
  draw(): number {
    const held = this.bytes(8);
    const view = new DataView(held.buffer, held.byteOffset, 8);
    return view.getUint32(0) * 2 ** 21 + (view.getUint32(4) >>> 11);
  }

  /** A uniform number in 0 ... count - 1, for 1 <= count <= 2^53. */
  below(count: number): number {
    const limit = RANGE - (RANGE % count);
    for (;;) {
      const drawn = this.draw();
      if (drawn < limit) return drawn % count;
    }
  }
}

/**
 * The message of a value.
 *
 * @param program - of the deployment.
 * @param value - a whole number in 0 ... categories - 1.
 * @param bytes - source of random bytes; the system's if left out. Anything else is for tests.
 * @throws RangeError if the value is none of the categories.
 */
export function message(program: Program, value: number, bytes: Bytes = systemBytes): Message {
  if (!Number.isInteger(value) || value < 0 || value >= program.categories) {
    throw new RangeError(`value must be a whole number below ${program.categories}, got ${value}`);
  }
  const draws = new Draws(bytes);
  switch (program.kind) {
    case "randomized-response": {
      const blank = draws.below(program.categories);
      return draws.draw() < program.fit ? value : blank;
    }
    case "rappor":
      return Array.from(
        { length: program.categories },
        (_, place) => draws.draw() < program.fit !== (place === value),
      );
    case "subset-selection":
      return subset(program.categories, program.size, program.fit, value, draws);
    case "local-hashing": {
      const seed = draws.draw();
      const blank = draws.below(program.buckets);
      const own = Number(splitMix(BigInt(seed), BigInt(value + 1)) % BigInt(program.buckets));
      return [seed, draws.draw() < program.fit ? own : blank];
    }
    case "hadamard-response": {
      const column = BigInt(draws.below(program.columns));
      const row = BigInt(value + 1);
      const fits = draws.draw() < program.fit;
      return Number(fits && odd(row & column) ? column ^ (row & -row) : column);
    }
  }
}

/** A uniform set by Floyd's algorithm, in which the value takes a place if the last draw fits. */
function subset(
  categories: number,
  size: number,
  fit: number,
  value: number,
  draws: Draws,
): number[] {
  const chosen: number[] = [];
  for (let last = categories - size; last < categories; last++) {
    const drawn = draws.below(last + 1);
    chosen.push(chosen.includes(drawn) ? last : drawn);
  }
  const place = draws.below(size);
  if (draws.draw() < fit && !chosen.includes(value)) chosen[place] = value;
  return chosen.sort((a, b) => a - b);
}

/** Whether a number has an odd number of bits. */
function odd(bits: bigint): boolean {
  let found = false;
  for (let rest = bits; rest > 0n; rest &= rest - 1n) found = !found;
  return found;
}

/** Output number `steps`, from 1, of SplitMix64 started at `start`. */
function splitMix(start: bigint, steps: bigint): bigint {
  let state = (start + steps * 0x9e3779b97f4a7c15n) & WORD;
  state = ((state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n) & WORD;
  state = ((state ^ (state >> 27n)) * 0x94d049bb133111ebn) & WORD;
  return state ^ (state >> 31n);
}
