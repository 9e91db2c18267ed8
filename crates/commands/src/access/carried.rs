//! A command that carries another one: its log and its keys are those of the carried one.

use mantissa_protocol::Args;

use super::{Access, NO_HINT};
use crate::effects::LogChoice;

impl Access<'_> {
    /// Logs the command that was carried, if it has changed something and logs itself as it came.
    pub(crate) fn log_carried(&mut self, args: Args<'_>) {
        self.hint = NO_HINT;
        if !self.is_logged || self.collected.dirty == 0 && self.collected.effects().dirty == 0 {
            return;
        }
        let log = &mut self.collected.effects().log;
        if matches!(log, LogChoice::Verbatim) {
            *log = LogChoice::Instead(vec![args.to_owned()]);
        }
    }
}
