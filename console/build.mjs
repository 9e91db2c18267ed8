// Builds dist/, which is checked in and becomes a part of the server's program.
//
//   node build.mjs           writes dist/
//   node build.mjs --check   compares dist/ with what would be written, and fails if they differ
//
// Scripts and styles lie compressed; what is compared is what they hold, since other versions of zlib pack
// otherwise.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { gunzipSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

const BYTES_MAX = 300 << 10;

/** The settings and what docs/configuration.md says of them, as a module. */
const settings = {
  name: "settings",
  setup(builder) {
    builder.onResolve({ filter: /^settings$/ }, ({ path }) => ({ path, namespace: "settings" }));
    builder.onLoad({ filter: /.*/, namespace: "settings" }, async () => {
      const sections = [];
      for (const part of (await readFile("../docs/configuration.md", "utf8")).split(/^## /m).slice(1)) {
        const [head, ...rest] = part.split(/^### /m);
        sections.push({
          title: head.split("\n")[0],
          settings: rest.map((setting) => {
            const [name, ...paragraphs] = setting.trim().split(/\n+/);
            const takes = paragraphs.find((it) => it.startsWith("*")) ?? "";
            const text = paragraphs
              .filter((it) => it !== takes)
              .join(" ")
              .replaceAll("`", "");
            return {
              name: name.replaceAll("`", ""),
              text: text.replace(/\[(.*?)\]\(.*?\)/g, "$1"),
              takes: takes.replace(/^\*|\*$/g, ""),
            };
          }),
        });
      }
      return { contents: JSON.stringify(sections), loader: "json" };
    });
  },
};

const { outputFiles, metafile } = await build({
  entryPoints: { console: "src/main.tsx" },
  outdir: "dist",
  bundle: true,
  minify: true,
  write: false,
  format: "esm",
  target: ["chrome105", "firefox115", "safari16"],
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  metafile: true,
  logLevel: "info",
  plugins: [settings],
});

const files = new Map();
for (const output of outputFiles) {
  files.set(`dist/${output.path.split("/").pop()}.gz`, Buffer.from(output.contents));
}
for (const name of ["index.html", "icon.svg"]) files.set(`dist/${name}`, await readFile(`src/${name}`));

// What the licences of the packages in the bundle ask for: to go with it.
const packages = new Set();
for (const input of Object.keys(metafile.inputs)) {
  const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (found) packages.add(found[1]);
}
let licences = "The console has parts of these packages.\n";
for (const name of [...packages].sort()) {
  const { version, license } = JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8"));
  const file = (await readdir(`node_modules/${name}`)).find((it) => /^licen[cs]e/i.test(it));
  if (!file) throw new Error(`${name} has no licence`);
  const text = await readFile(`node_modules/${name}/${file}`, "utf8");
  licences += `\n${name} ${version} (${license})\n\n${text.trim()}\n`;
}
files.set("dist/licences.txt.gz", Buffer.from(licences));

let total = 0;
let differing = 0;
for (const [path, content] of files) {
  const packed = path.endsWith(".gz") ? gzipSync(content, { level: 9 }) : content;
  total += packed.length;
  if (process.argv.includes("--check")) {
    const found = await readFile(path).catch(() => Buffer.alloc(0));
    const held = path.endsWith(".gz") && found.length > 0 ? gunzipSync(found) : found;
    if (!held.equals(content)) {
      console.error(`${path} is not what the sources make: run npm run build`);
      differing = 1;
    }
  } else {
    await writeFile(path, packed);
  }
}
console.log(`${total} bytes`);
if (total > BYTES_MAX) {
  console.error(`more than ${BYTES_MAX}`);
  differing = 1;
}
process.exit(differing);
