//! The title of the process: `proc-title-template`, filled in.

use std::path::PathBuf;

use mantissa_engine::config::Config;
use mantissa_sys::process_title;

/// The directives that the title depends on.
pub const DIRECTIVES: [&str; 4] = ["proc-title-template", "bind", "port", "tls-port"];

/// Makes room for the title. To be called before any thread is started.
pub fn prepare(config: &Config) {
    if config.set_proc_title {
        process_title::prepare();
    }
}

/// Shows the title of this configuration, unless `set-proc-title` is off.
pub fn show(config: &Config) {
    if config.set_proc_title {
        process_title::set(&fill_in(config, &program()));
    }
}

/// The program as it was called, with the word `server` if that was its subcommand.
fn program() -> String {
    let mut words = std::env::args_os();
    let name = words.next().map(PathBuf::from).unwrap_or_default();
    let mut shown = name.to_string_lossy().into_owned();
    let says_server = name.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-server"));
    if !says_server && words.next().is_some_and(|word| word == "server") {
        shown.push_str(" server");
    }
    shown
}

/// The template with the values of its variables, without spaces at its ends.
fn fill_in(config: &Config, program: &str) -> String {
    let mut title = String::new();
    let mut rest = config.proc_title_template.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        title.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        title.push_str(&value(config, program, name));
        rest = after;
    }
    title.push_str(rest);
    title.trim_matches(' ').to_owned()
}

fn value(config: &Config, program: &str, name: &str) -> String {
    match name {
        "title" => program.to_owned(),
        "listen-addr" => listening_address(config),
        "port" => config.port.to_string(),
        "tls-port" => config.tls_port.to_string(),
        "unixsocket" => config.unixsocket.clone().unwrap_or_default(),
        "config-file" => config.file().map_or_else(|| "-".to_owned(), |file| file.display().to_string()),
        // The mode of a server is shown for clusters and Sentinel only.
        _ => String::new(),
    }
}

/// The first address and the port that the server listens on, or its Unix socket if it has no port.
fn listening_address(config: &Config) -> String {
    let port = if config.port == 0 { config.tls_port } else { config.port };
    match &config.unixsocket {
        Some(path) if port == 0 => format!("unixsocket:{path}"),
        _ => format!("{}:{port}", config.bind.first().map_or("*", String::as_str)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(template: &str, change: impl Fn(&mut Config)) -> String {
        let mut config = Config { proc_title_template: template.to_owned(), ..Config::default() };
        change(&mut config);
        fill_in(&config, "redis-server")
    }

    #[test]
    fn variables_are_filled_in_once() {
        let standard = &Config::default().proc_title_template;
        assert_eq!(title(standard, |_| {}), "redis-server *:6379");
        assert_eq!(title(standard, |config| config.port = 0), "redis-server *:0");
        let only_socket = |config: &mut Config| {
            config.port = 0;
            config.unixsocket = Some("/run/{port}".to_owned());
        };
        assert_eq!(title(standard, only_socket), "redis-server unixsocket:/run/{port}");
        assert_eq!(title("{unixsocket}|{port}|{tls-port}", only_socket), "/run/{port}|0|0");
        let bound = |config: &mut Config| config.bind = vec!["127.0.0.1".to_owned(), "::1".to_owned()];
        assert_eq!(title(" a {listen-addr} {config-file} ", bound), "a 127.0.0.1:6379 -");
    }
}
