// What COMMAND DOCS says: summaries and arguments of all commands.
import type { Session } from "./session";
import { fields, show, type Reply } from "./text";

export interface Command {
  /** In capitals; of a subcommand with its container: CONFIG GET. */
  name: string;
  summary: string;
  since: string;
  complexity: string;
  syntax: string;
}

/** All commands by name. */
export async function loadCommands(session: Session): Promise<Map<string, Command>> {
  const found = new Map<string, Command>();
  const add = (name: string, docs: Map<string, Reply>) => {
    const full = name.toUpperCase().replace("|", " ");
    const inner = fields(docs.get("subcommands") ?? null);
    found.set(full, {
      name: full,
      summary: show(docs.get("summary")),
      since: show(docs.get("since")),
      complexity: show(docs.get("complexity")),
      syntax: inner.size > 0 ? "subcommand" : syntax((docs.get("arguments") ?? []) as Reply[]),
    });
    for (const [subcommand, its] of inner) add(subcommand, fields(its));
  };
  for (const [name, docs] of fields(await session.call("COMMAND", "DOCS"))) add(name, fields(docs));
  return found;
}

function syntax(list: Reply[]): string {
  return list.map((it) => argument(fields(it))).join(" ");
}

function argument(it: Map<string, Reply>): string {
  const inner = (it.get("arguments") ?? []) as Reply[];
  const flags = ((it.get("flags") ?? []) as Reply[]).map(show);
  const token = show(it.get("token"));
  const type = show(it.get("type"));
  let text =
    type === "pure-token"
      ? token
      : type === "oneof"
        ? inner.map((each) => argument(fields(each))).join("|")
        : type === "block"
          ? syntax(inner)
          : show(it.get("display_text") ?? it.get("name"));
  if (type === "oneof" && !flags.includes("optional") && inner.length > 1) text = `<${text}>`;
  if (token !== "" && type !== "pure-token") text = `${token} ${text}`;
  if (flags.includes("multiple")) text = `${text} [${text} …]`;
  return flags.includes("optional") ? `[${text}]` : text;
}
