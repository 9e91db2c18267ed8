//! Commands as the slow log and MONITOR show them.

use mantissa_commands::spec::Secrets;
use mantissa_protocol::Args;

/// The arguments as others may see them: without secrets.
pub fn shown_arguments<'a>(
    secrets: Option<Secrets>,
    args: Args<'a>,
) -> impl ExactSizeIterator<Item = &'a [u8]> {
    let is_secret = move |index| secrets.is_some_and(|is_secret| is_secret(args, index));
    let arguments = args.iter().enumerate();
    arguments.map(move |(index, text)| if is_secret(index) { b"(redacted)" } else { text })
}
