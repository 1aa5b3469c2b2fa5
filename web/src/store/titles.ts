/** Characters of a title that is made of a text. */
const LENGTH = 60;

/** A title from the first words of a conversation. */
export function titleOf(text: string): string {
  const line = text.trim().split("\n")[0]?.trim() ?? "";
  if (line.length <= LENGTH) return line;
  return `${line.slice(0, LENGTH).replace(/\s+\S*$/, "")}…`;
}
