//! The answers of ListObjectsV2, and errors: XML.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::Event;

/// A page of a list of objects.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Page {
    /// Keys, and sizes in bytes.
    pub objects: Vec<(String, u64)>,
    /// What asks for the page after it.
    pub next: Option<String>,
}

/// Calls `take` with the names of the element and of that around it, for each text.
fn visit(xml: &[u8], mut take: impl FnMut(&str, &str, &str) -> Result<(), String>) -> Result<(), String> {
    let xml = std::str::from_utf8(xml).map_err(|_| "the answer is no text".to_owned())?;
    let mut reader = Reader::from_str(xml);
    let (mut open, mut text): (Vec<String>, String) = (Vec::new(), String::new());
    let bad = |error: &dyn std::fmt::Display| format!("the answer is no XML that was expected: {error}");
    loop {
        match reader.read_event().map_err(|error| bad(&error))? {
            Event::Start(tag) => {
                open.push(tag.local_name().as_ref().to_owned());
                text.clear();
            }
            Event::Text(part) => text += &part,
            // References come by themselves.
            Event::GeneralRef(name) => {
                text += &unescape(&format!("&{};", &*name)).map_err(|error| bad(&error))?;
            }
            Event::End(_) => {
                let name = open.pop().unwrap_or_default();
                take(open.last().map_or("", String::as_str), &name, &text)?;
                text.clear();
            }
            Event::Eof if open.is_empty() => return Ok(()),
            Event::Eof => return Err(bad(&"it ends early")),
            _ => {}
        }
    }
}

/// Reads a page. The error is a sentence.
pub(super) fn parse(xml: &[u8]) -> Result<Page, String> {
    let mut page = Page::default();
    let (mut key, mut size, mut is_list) = (None, 0, false);
    visit(xml, |around, name, text| {
        match (around, name) {
            ("Contents", "Key") => key = Some(text.to_owned()),
            ("Contents", "Size") => {
                size = text.parse().map_err(|_| format!("'{text}' is no size"))?;
            }
            (_, "Contents") => page.objects.extend(key.take().map(|key| (key, size))),
            (_, "NextContinuationToken") if !text.is_empty() => page.next = Some(text.to_owned()),
            (_, "ListBucketResult") => is_list = true,
            _ => {}
        }
        Ok(())
    })?;
    if is_list { Ok(page) } else { Err("the answer is no list of objects".to_owned()) }
}

/// What an error's body says: its code and its message.
pub(super) fn error(xml: &[u8]) -> Option<String> {
    let (mut code, mut message) = (None, None);
    visit(xml, |around, name, text| {
        match (around, name) {
            ("Error", "Code") => code = Some(text.to_owned()),
            ("Error", "Message") => message = Some(text.to_owned()),
            _ => {}
        }
        Ok(())
    })
    .ok()?;
    match (code, message) {
        (Some(code), Some(message)) if !message.is_empty() => Some(format!("{code}: {message}")),
        (code, _) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_errors_are_read() {
        let xml = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/\">\
                   <Name>b</Name><Prefix>p/</Prefix><IsTruncated>true</IsTruncated>\
                   <Contents><Key>p/a&amp;b</Key><Size>12</Size><Owner><ID>x</ID></Owner></Contents>\n\
                   <Contents><Size>0</Size><Key>p/c</Key></Contents>\
                   <NextContinuationToken>t=</NextContinuationToken></ListBucketResult>";
        let page = parse(xml.as_bytes()).expect("it is right");
        assert_eq!(page.objects, [("p/a&b".to_owned(), 12), ("p/c".to_owned(), 0)]);
        assert_eq!(page.next.as_deref(), Some("t="));
        for end in 0..xml.len() {
            assert!(parse(&xml.as_bytes()[..end]).is_err(), "{end}");
        }
        assert!(parse(b"<html></html>").is_err() && parse(b"\xff").is_err());
        let xml = b"<Error><Code>AccessDenied</Code><Message>No &lt;way&gt;</Message></Error>";
        assert_eq!(error(xml).as_deref(), Some("AccessDenied: No <way>"));
        assert_eq!(error(b"<Error><Code>SlowDown</Code></Error>").as_deref(), Some("SlowDown"));
        assert!(error(b"not found").is_none());
    }
}
