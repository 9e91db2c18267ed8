//! The command lines of `mantissa import` and `mantissa export`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};

use crate::connection::Address;
use crate::target::{Target, TargetOptions};

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FileForm {
    /// A dump, as servers write it.
    Rdb,
    /// A JSON object for each key, one a line.
    Json,
    /// A line for each element.
    Csv,
    /// An append-only file: a directory, its manifest, or a single file.
    Aof,
}

/// A server or a file.
pub(crate) enum Place {
    /// A server.
    Server(Target),
    /// A file; `-` is standard input or output.
    File(PathBuf, FileForm),
}

impl Place {
    fn parse(text: &str, form: Option<FileForm>, place: &TargetOptions) -> Result<Place, String> {
        if text.contains("://") {
            let like = place.target()?;
            let address = Address::host(String::new(), 0, place.tls_of(text)?);
            let bare = Target { address, user: None, password: None, database: 0, ..like };
            return Ok(Place::Server(Target::parse(text, Some(&bare))?));
        }
        let path = PathBuf::from(text);
        let form = form.or_else(|| FileForm::of(&path)).ok_or_else(|| {
            format!(
                "{text}: neither a URI, nor a directory, nor a file whose name ends in .rdb, .aof, .jsonl or \
                 .csv; see --format"
            )
        })?;
        Ok(Place::File(path, form))
    }
}

impl FileForm {
    /// The form that a name tells.
    fn of(path: &Path) -> Option<FileForm> {
        if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Some(FileForm::Aof);
        }
        match path.extension()?.to_str()? {
            "aof" | "manifest" => Some(FileForm::Aof),
            "rdb" => Some(FileForm::Rdb),
            "jsonl" | "ndjson" | "json" => Some(FileForm::Json),
            "csv" => Some(FileForm::Csv),
            _ => None,
        }
    }
}

/// Copy a live server, or a file, into a server.
#[derive(Parser, Debug)]
#[command(
    name = "mantissa import",
    bin_name = "mantissa import",
    version,
    disable_help_flag = true,
    args_override_self = true
)]
pub(crate) struct ImportOptions {
    /// Where the data comes from: redis://[[USER:]PASSWORD@]HOST[:PORT][/DATABASE], or a file (.rdb, .aof,
    /// .jsonl, .csv), or the directory of an append-only file; without a database, all are copied
    source: String,
    #[command(flatten)]
    place: TargetOptions,
    /// What the file holds, if its name does not tell
    #[arg(long, value_enum)]
    format: Option<FileForm>,
    /// Number of connections that work at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 4,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub(crate) threads: usize,
    /// Number of keys that go over a connection at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 100,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub(crate) batch: usize,
    /// Replace keys that are there already; run the commands of an append-only file on a server with keys
    #[arg(long)]
    pub(crate) replace: bool,
    /// Which keys to copy; not from append-only files
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// Copy the ACL users of a server, too; the default user only with --replace
    #[arg(long)]
    pub(crate) acl_users: bool,
    /// Leave out keys of module types that this program or the server does not know, instead of failing
    #[arg(long)]
    pub(crate) skip_unknown_types: bool,
    /// Remember in this file how far the copy of a server has come, and go on there
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Compare both servers at the end of the copy of a server: all values by digests, expiries, functions,
    /// and users where copied
    #[arg(long)]
    pub(crate) verify: bool,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl ImportOptions {
    /// Those of an import of a dump that comes from elsewhere.
    pub(crate) fn for_dump(replace: bool) -> Result<ImportOptions, clap::Error> {
        let words = ["import", "--format=rdb", "-"];
        ImportOptions::try_parse_from(words.into_iter().chain(replace.then_some("--replace")))
    }

    /// The server that takes the data.
    pub(crate) fn target(&self) -> Result<Target, String> {
        self.place.target()
    }

    /// Where the data comes from.
    pub(crate) fn source(&self) -> Result<Place, String> {
        Place::parse(&self.source, self.format, &self.place)
    }

    /// The database to copy; all if the URI names none.
    pub(crate) fn database(&self) -> Option<u32> {
        let (_, rest) = self.source.split_once("://")?;
        let (_, path) = rest.split_once('/')?;
        path.parse().ok()
    }

    /// Refuses what makes no sense for a file, which would be left undone without a word.
    pub(crate) fn refuse_for_file(&self, path: &Path, form: FileForm) -> Result<(), String> {
        let given = [
            ("--acl-users", self.acl_users),
            ("--resume", self.resume.is_some()),
            ("--verify", self.verify),
            ("--pattern", self.pattern.is_some() && form == FileForm::Aof),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some(("--pattern", _)) => {
                Err(format!("--pattern: the commands of an append-only file, as {}, run all", path.display()))
            }
            Some((name, _)) => {
                Err(format!("{name} is for copies of a server, and {} is a file", path.display()))
            }
            None => Ok(()),
        }
    }

    /// Whether all keys are copied, and so what belongs to no key.
    pub(crate) fn copies_all(&self) -> bool {
        self.pattern.is_none() && self.database().is_none()
    }

    /// The source as it was given, without a password.
    pub(crate) fn source_name(&self) -> &str {
        self.source.rsplit_once('@').map_or(self.source.as_str(), |(_, place)| place)
    }
}

/// Write the data of a server to a file.
#[derive(Parser, Debug)]
#[command(
    name = "mantissa export",
    bin_name = "mantissa export",
    version,
    disable_help_flag = true,
    args_override_self = true
)]
pub(crate) struct ExportOptions {
    /// The file to write: .rdb, .aof, .jsonl or .csv; `-` is standard output; with a `/` at its end, the
    /// directory of an append-only file
    destination: String,
    #[command(flatten)]
    place: TargetOptions,
    /// What to write, if the name does not tell
    #[arg(long, value_enum)]
    format: Option<FileForm>,
    /// Number of keys that are asked for at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 100,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub(crate) batch: usize,
    /// Number of one database; all if none is named
    #[arg(short = 'n', long, value_name = "NUMBER")]
    pub(crate) database: Option<u32>,
    /// Which keys to write
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl ExportOptions {
    /// Those of an export of everything to a dump.
    pub(crate) fn for_dump(path: &Path) -> Result<ExportOptions, clap::Error> {
        let words = ["export", "--format=rdb", "--"].map(OsStr::new);
        ExportOptions::try_parse_from(words.into_iter().chain([path.as_os_str()]))
    }

    /// The server that has the data.
    pub(crate) fn source(&self) -> Result<Target, String> {
        self.place.target()
    }

    /// Where the data goes.
    pub(crate) fn destination(&self) -> Result<Place, String> {
        Place::parse(&self.destination, self.format, &self.place)
    }

    /// Whether only some of the keys are wanted.
    pub(crate) fn is_part(&self) -> bool {
        self.pattern.is_some() || self.database.is_some()
    }

    /// Whether standard output belongs to the data.
    pub(crate) fn is_quiet(&self) -> bool {
        self.destination == "-"
    }
}
