//! Locales of the operating system.

use std::ffi::CString;

/// Whether the system has a locale of this name for the order of texts. An empty name is that of the
/// environment.
pub fn is_locale(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: the name ends in a NUL byte, and no locale is changed.
    let locale = unsafe { libc::newlocale(libc::LC_COLLATE_MASK, name.as_ptr(), std::ptr::null_mut()) };
    if locale.is_null() {
        return false;
    }
    // SAFETY: the locale was made above, and nobody else has it.
    unsafe { libc::freelocale(locale) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_names() {
        assert!(is_locale("C"));
        assert!(!is_locale("no such locale") && !is_locale("a\0b"));
    }
}
