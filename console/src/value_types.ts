// The types of values.

/** The types of values, as TYPE says them, and their names here. */
export const TYPES: readonly (readonly [string, string])[] = [
  ["string", "string"],
  ["hash", "hash"],
  ["list", "list"],
  ["set", "set"],
  ["zset", "sorted set"],
  ["stream", "stream"],
  ["ReJSON-RL", "JSON"],
  ["TSDB-TYPE", "series"],
  ["vectorset", "vectors"],
  ["MBbloom--", "Bloom filter"],
  ["MBbloomCF", "Cuckoo filter"],
  ["CMSk-TYPE", "Count-Min sketch"],
  ["TopK-TYPE", "Top-K"],
  ["TDIS-TYPE", "t-digest"],
];

export function typeName(type: string): string {
  return TYPES.find(([name]) => name === type)?.[1] ?? type;
}
