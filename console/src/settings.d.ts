/** What docs/configuration.md says of settings; build.mjs reads it. */
declare module "settings" {
  const sections: { title: string; settings: { name: string; text: string; takes: string }[] }[];
  export default sections;
}
