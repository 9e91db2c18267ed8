//! The console: a page for browsers at `/` of the HTTP ports, which speaks to the server over WebSocket as
//! any client does. Its files are built from `console/` (see `console/build.mjs`) and are a part of the
//! program.
//!
//! The files are the same for everybody and hold nothing of the data, so they need no login. The policy
//! that goes with them lets a browser run no script and load nothing but these files, whatever a key or
//! value holds. Scripts and styles are sent compressed with gzip, which every browser takes.
//!
//! Costs: the bytes of the files in the program, a copy of one for each request.

use std::sync::LazyLock;

use mantissa_engine::config::Config;
use mantissa_net::http::{Head, Response, Status};
use mantissa_store::json::write_string;

const PAGE: &[u8] = include_bytes!("../../../console/dist/index.html");
const SCRIPT: &[u8] = include_bytes!("../../../console/dist/console.js.gz");
const STYLE: &[u8] = include_bytes!("../../../console/dist/console.css.gz");
const ICON: &[u8] = include_bytes!("../../../console/dist/icon.svg");
const LICENCES: &[u8] = include_bytes!("../../../console/dist/licences.txt.gz");

/// What the page may do: run its own script, be styled by its own sheet, talk to its own server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the console.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// The page.
    Page,
    /// Its script.
    Script,
    /// Its styles.
    Style,
    /// Its icon.
    Icon,
    /// The licences of the packages that are in its script.
    Licences,
    /// What the server's settings say of the console, in JSON.
    About,
}

impl File {
    /// The file at a path.
    pub fn at(path: &str) -> Option<File> {
        Some(match path {
            "/" => File::Page,
            "/console/console.js" => File::Script,
            "/console/console.css" => File::Style,
            "/console/icon.svg" => File::Icon,
            "/console/licences.txt" => File::Licences,
            "/console/about.json" => File::About,
            _ => return None,
        })
    }

    /// The answer to a request for it.
    pub fn answer(self, head: &Head, config: &Config) -> Response {
        let (content_type, content, is_packed) = match self {
            File::Page => ("text/html; charset=utf-8", PAGE, false),
            File::Script => ("text/javascript; charset=utf-8", SCRIPT, true),
            File::Style => ("text/css; charset=utf-8", STYLE, true),
            File::Icon => ("image/svg+xml", ICON, false),
            File::Licences => ("text/plain; charset=utf-8", LICENCES, true),
            File::About => return guarded(Response::new(Status::Ok, "application/json", about(config))),
        };
        let tag = format!("\"{:016x}\"", *TAG);
        let response = if head.joined("if-none-match").split(',').any(|it| it.trim() == tag) {
            Response::new(Status::NotModified, content_type, Vec::new())
        } else {
            Response::new(Status::Ok, content_type, content.to_vec())
        };
        let response = response.with("Cache-Control", "no-cache").with("ETag", tag);
        guarded(if is_packed { response.with("Content-Encoding", "gzip") } else { response })
    }
}

fn guarded(response: Response) -> Response {
    response
        .with("Content-Security-Policy", POLICY)
        .with("Referrer-Policy", "no-referrer")
        .with("Cross-Origin-Opener-Policy", "same-origin")
        .with("Cross-Origin-Resource-Policy", "same-origin")
}

fn about(config: &Config) -> Vec<u8> {
    let mut text = b"{\"label\":".to_vec();
    write_string(config.http_console_label.as_bytes(), &mut text);
    text.push(b'}');
    text
}

/// FNV-1a of all files: they change together.
static TAG: LazyLock<u64> = LazyLock::new(|| {
    let bytes = [PAGE, SCRIPT, STYLE, ICON, LICENCES].into_iter().flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_small_and_the_page_has_nothing_inline() {
        assert!([PAGE, SCRIPT, STYLE, ICON, LICENCES].map(<[u8]>::len).iter().sum::<usize>() < 300 << 10);
        assert!(SCRIPT.starts_with(&[0x1f, 0x8b]) && STYLE.starts_with(&[0x1f, 0x8b]));
        let page = std::str::from_utf8(PAGE).expect("the page is text");
        assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" on"));
        assert_eq!(page.matches("<script").count(), 1);
        assert!(page.contains("<script type=\"module\" src=\"/console/console.js\"></script>"));
    }

    #[test]
    fn what_the_settings_say_is_json() {
        let config = Config { http_console_label: "a\"b".to_owned(), ..Config::default() };
        assert_eq!(about(&config), br#"{"label":"a\"b"}"#);
    }
}
