//! Tests of the table, of files, command lines and `CONFIG SET`.

use super::*;

#[test]
fn every_default_is_accepted_and_prints_in_canonical_form() {
    let config = Config::default();
    let settable = |directive: &&Directive| !matches!(directive.name, "dir" | "replicaof");
    for directive in DIRECTIVES.iter().filter(settable) {
        let text = directive.text(&config);
        let again = config.set_for_test(directive, &text);
        assert_eq!(again.map(|config| directive.text(&config)), Ok(text), "{}", directive.name);
    }
}

impl Config {
    fn set_for_test(&self, directive: &Directive, text: &[u8]) -> Result<Config, Refusal> {
        let mut config = self.clone();
        config.assign(directive, &directive.split_value(text), false)?;
        Ok(config)
    }
}
