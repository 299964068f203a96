// What of jsdiff the console's modules use: nothing where a comparison would take too long.

interface Part {
  value: string;
  added?: boolean;
  removed?: boolean;
}

export function diffWordsWithSpace(
  old: string,
  now: string,
  options: { maxEditLength: number },
): Part[] | undefined;
export function diffLines(
  old: string,
  now: string,
  options: { maxEditLength: number },
): Part[] | undefined;
