//! Errors as answers in JSON.

use mantissa_net::http::{Response, Status};
use mantissa_protocol::json::write_string;

/// The media type of answers.
pub const MEDIA_TYPE: &str = "application/json";

/// An error as the answer to a request.
pub fn error(status: Status, text: &str) -> Response {
    let mut content = b"{\"error\":".to_vec();
    write_string(text.as_bytes(), &mut content);
    content.push(b'}');
    Response::new(status, MEDIA_TYPE, content)
}
