//! What is at a path.

use mantissa_net::http::{Head, Method, Response, Status};

use super::json::error;
use crate::console;

/// What a request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// `POST /`: the content is a command.
    Command,
    /// `POST /pipeline`: the content is an array of commands.
    Pipeline,
    /// `POST /multi-exec`: the content is an array of commands, which run as a transaction.
    Transaction,
    /// A file of the console.
    Console(console::File),
    /// `GET /ws`: WebSocket is to be spoken.
    WebSocket,
    /// `/COMMAND/ARGUMENT...`: the path is a command.
    Path,
}

/// Finds what is at the path of a request. An error is the answer.
pub fn route(head: &Head, has_console: bool) -> Result<Route, Response> {
    if has_console
        && matches!(head.method, Method::Get | Method::Head)
        && let Some(file) = console::File::at(&head.path)
    {
        return Ok(Route::Console(file));
    }
    let (route, methods) = match head.path.as_str() {
        "/" if has_console => (Route::Command, "GET, HEAD, POST"),
        "/" => (Route::Command, "POST"),
        "/pipeline" => (Route::Pipeline, "POST"),
        "/multi-exec" => (Route::Transaction, "POST"),
        "/ws" => (Route::WebSocket, "GET"),
        _ => (Route::Path, "GET, HEAD, POST"),
    };
    let name = match head.method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Options | Method::Other => "",
    };
    if methods.split(", ").any(|method| method == name) {
        return Ok(route);
    }
    Err(error(Status::MethodNotAllowed, "ERR this path does not have this method").with("Allow", methods))
}
