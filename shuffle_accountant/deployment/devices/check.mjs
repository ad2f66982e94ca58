// Checks devices.js with files of test vectors: node check.mjs vectors.json ...
import { readFileSync } from "node:fs";
import { message } from "./devices.js";

let wrong = 0;
for (const path of process.argv.slice(2)) {
  const { program, vectors } = JSON.parse(readFileSync(path, "utf8"));
  for (const [number, vector] of vectors.entries()) {
    const held = Buffer.from(vector.bytes, "hex");
    let used = 0;
    const bytes = (count) => {
      used += count;
      if (used > held.length) throw new Error(`${path}: vector ${number} has too few bytes`);
      return held.subarray(used - count, used);
    };
    const found = JSON.stringify(message(program, vector.value, bytes));
    if (found !== JSON.stringify(vector.message) || used !== held.length) {
      wrong += 1;
      console.error(`${path}: vector ${number}: ${found}, not ${JSON.stringify(vector.message)}`);
    }
  }
  console.log(`${path}: ${vectors.length} vectors of ${program.kind}`);
  message(program, 0); // the system's source answers
}
if (process.argv.length < 3) {
  console.error("usage: npm test -- vectors.json ...");
  wrong += 1;
}
process.exit(wrong ? 1 : 0);
