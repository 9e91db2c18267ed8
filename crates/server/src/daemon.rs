//! Going to the background, and the file that tells the process id.

use mantissa_engine::config::Config;
use mantissa_engine::log::warning;
use mantissa_sys::{process, supervision};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the process id is written in the background if the configuration names no file.
const PID_FILE: &str = "/var/run/mantissa.pid";

/// A file that holds the process id; it is removed when this value goes.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    pid: u32,
}

impl PidFile {
    /// Writes the process id into a file.
    pub fn write(path: &Path) -> io::Result<PidFile> {
        let path = std::path::absolute(path)?;
        let pid = std::process::id();
        fs::write(&path, format!("{pid}\n"))?;
        Ok(PidFile { path, pid })
    }

    /// Where it is, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PidFile {
    /// Leaves a file alone that another process has written since.
    fn drop(&mut self) {
        if fs::read_to_string(&self.path).is_ok_and(|text| text.trim() == self.pid.to_string()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether the server runs in the background: the configuration says so, and nobody supervises the process.
fn runs_in_background(config: &Config) -> bool {
    config.daemonize && supervision::supervisor().is_none()
}

/// Goes to the background if the configuration says so. To be called before any thread is started: fails if
/// there is another one.
pub fn daemonize(config: &Config) -> io::Result<()> {
    if runs_in_background(config) { process::daemonize() } else { Ok(()) }
}

/// Writes the process id where the configuration says, in the background always; a configuration that names
/// no file then gets the default. A file that can not be written is logged and done without.
pub fn write_pid_file(config: &mut Config) -> Option<PidFile> {
    if config.pidfile.is_none() && runs_in_background(config) {
        config.pidfile = Some(PID_FILE.to_owned());
    }
    let path = config.pidfile.as_deref()?;
    match PidFile::write(Path::new(path)) {
        Ok(file) => Some(file),
        Err(error) => {
            warning!("Failed to write PID file: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_file_is_removed_unless_it_is_anothers() {
        let path = std::env::temp_dir().join(format!("mantissa-pid-{}", std::process::id()));
        let mut config = Config { pidfile: path.to_str().map(str::to_owned), ..Config::default() };
        let file = write_pid_file(&mut config).expect("the temporary folder is writable");
        assert_eq!(fs::read_to_string(file.path()).ok(), Some(format!("{}\n", std::process::id())));
        drop(file);
        assert!(!path.exists());
        let file = write_pid_file(&mut config).expect("the temporary folder is writable");
        fs::write(&path, "1\n").expect("the temporary folder is writable");
        drop(file);
        assert!(path.exists());
        fs::remove_file(path).expect("the file is ours");
    }

    #[test]
    fn no_pid_file_unless_asked_for() {
        let mut config = Config::default();
        assert!(write_pid_file(&mut config).is_none() && config.pidfile.is_none());
    }
}
