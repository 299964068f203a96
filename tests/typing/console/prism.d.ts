// What of Prism the console's worker uses.

type Token = string | { type: string; content: Token | Token[] };

declare const Prism: {
  languages: Record<string, object>;
  tokenize(text: string, grammar: object): Token[];
};
export default Prism;
