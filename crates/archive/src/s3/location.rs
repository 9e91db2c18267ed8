//! Which bucket of which service, and with whose keys.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use super::signing::encoded;

/// How long, by default, a writer that says nothing keeps others out, in seconds.
const LEASE_S: u64 = 120;

/// Where objects are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Location {
    /// `https://HOST`, without a path.
    pub endpoint: String,
    /// The host of the endpoint, with its port.
    pub host: String,
    /// What comes before the keys of objects in paths: nothing, or `/BUCKET`.
    pub path: String,
    pub bucket: String,
    /// What keys begin with: nothing, or a text that ends with a slash.
    pub prefix: String,
    pub region: String,
    /// How long a writer that says nothing keeps others out, in seconds.
    pub lease_s: u64,
}

/// Looks up a variable of the environment.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Location {
    /// The location that a URL names. The error is a sentence.
    pub fn parse(url: &str, variable: Variables<'_>) -> Result<Location, String> {
        let failed = |reason: &str| format!("{url}: {reason}");
        let rest = url.strip_prefix("s3://").ok_or_else(|| failed("it does not begin with s3://"))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if bucket.is_empty() || !bucket.bytes().all(is_name) {
            return Err(failed("it names no bucket, as s3://BUCKET/PREFIX does"));
        }
        let (mut endpoint, mut region, mut lease_s) = (None, None, LEASE_S);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("endpoint", value)) => endpoint = Some(value.to_owned()),
                Some(("region", value)) => region = Some(value.to_owned()),
                Some(("lease", value)) => {
                    let seconds = value.parse().ok().filter(|seconds| (1..=86_400).contains(seconds));
                    lease_s = seconds.ok_or_else(|| failed("lease= takes 1 to 86400 seconds"))?;
                }
                _ => return Err(failed(&format!("'{pair}' is none of endpoint=, region= and lease="))),
            }
        }
        let endpoint =
            endpoint.or_else(|| variable("AWS_ENDPOINT_URL_S3")).or_else(|| variable("AWS_ENDPOINT_URL"));
        let region = region.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let (endpoint, path) = match endpoint {
            Some(endpoint) => (endpoint.trim_end_matches('/').to_owned(), format!("/{bucket}")),
            // A certificate for *.s3.REGION.amazonaws.com has no name with further dots.
            None if bucket.contains('.') => {
                (format!("https://s3.{region}.amazonaws.com"), format!("/{bucket}"))
            }
            None => (format!("https://{bucket}.s3.{region}.amazonaws.com"), String::new()),
        };
        let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
        let host = host.filter(|host| {
            !host.is_empty() && host.bytes().all(|byte| is_name(byte) || matches!(byte, b':' | b'[' | b']'))
        });
        let host =
            host.ok_or_else(|| failed(&format!("'{endpoint}' is no endpoint such as https://HOST")))?;
        let host = host.to_owned();
        Ok(Location { endpoint, host, path, bucket: bucket.to_owned(), prefix, region, lease_s })
    }

    /// The path of an object, or of the bucket for an empty key, as it is sent and signed.
    pub fn path_of(&self, key: &str) -> String {
        if key.is_empty() && !self.path.is_empty() {
            return self.path.clone();
        }
        format!("{}/{}", self.path, encoded(key, true))
    }
}

/// Keys to sign requests with.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub access_key: String,
    pub secret_key: String,
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Those of the environment, or of the file that it or a home folder has. The error is a sentence.
    pub fn find(variable: Variables<'_>) -> Result<Credentials, String> {
        let keys = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"));
        if let (Some(access_key), Some(secret_key)) = keys {
            let session_token = variable("AWS_SESSION_TOKEN");
            return Ok(Credentials { access_key, secret_key, session_token });
        }
        let of_home = || variable("HOME").map(|home| PathBuf::from(home).join(".aws/credentials"));
        let path = variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from).or_else(of_home);
        let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        let text = path.as_ref().map(fs::read_to_string);
        match (text, &path) {
            (Some(Ok(text)), Some(path)) => Self::of_file(&text, &profile)
                .ok_or_else(|| format!("{}: it has no keys of the profile '{profile}'", path.display())),
            (Some(Err(error)), Some(path)) if variable("AWS_SHARED_CREDENTIALS_FILE").is_some() => {
                Err(format!("{}: {error}", path.display()))
            }
            _ => Err("there are no keys for the bucket: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                      AWS_SHARED_CREDENTIALS_FILE, have to be set"
                .to_owned()),
        }
    }

    /// The keys of a profile in a credentials file.
    fn of_file(text: &str, profile: &str) -> Option<Credentials> {
        let (mut access_key, mut secret_key, mut session_token) = (None, None, None);
        let mut is_inside = false;
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                is_inside = name.trim() == profile;
            } else if let (true, Some((name, value))) = (is_inside, line.split_once('=')) {
                let value = Some(value.trim().to_owned());
                match name.trim() {
                    "aws_access_key_id" => access_key = value,
                    "aws_secret_access_key" => secret_key = value,
                    "aws_session_token" => session_token = value,
                    _ => {}
                }
            }
        }
        Some(Credentials { access_key: access_key?, secret_key: secret_key?, session_token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn urls_name_buckets() {
        let parse = |url: &str| Location::parse(url, &none);
        let location = parse("s3://backups/a/b/?region=eu-central-1").expect("it is right");
        assert_eq!(location.endpoint, "https://backups.s3.eu-central-1.amazonaws.com");
        assert_eq!((location.prefix.as_str(), location.path_of("a/b c")), ("a/b/", "/a/b%20c".to_owned()));
        let location = parse("s3://backups?endpoint=http://127.0.0.1:9000/&lease=5").expect("it is right");
        assert_eq!((location.host.as_str(), location.lease_s), ("127.0.0.1:9000", 5));
        assert_eq!(location.path_of("config"), "/backups/config");
        assert_eq!((location.path_of(""), location.prefix.as_str()), ("/backups".to_owned(), ""));
        let location = parse("s3://www.backups/").expect("it is right");
        assert_eq!(location.endpoint, "https://s3.us-east-1.amazonaws.com");
        assert_eq!(location.path_of(""), "/www.backups");
        for wrong in [
            "s3://",
            "s3:///a",
            "s3://a?b=c",
            "s3://a?lease=0",
            "s3://a?endpoint=ftp://b",
            "s3://a?endpoint=http://b/c",
            "http://a",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let set = |name: &str| match name {
            "AWS_ENDPOINT_URL" => Some("https://minio:9000".to_owned()),
            "AWS_DEFAULT_REGION" => Some("here".to_owned()),
            _ => None,
        };
        let location = Location::parse("s3://a", &set).expect("it is right");
        assert_eq!((location.host.as_str(), location.region.as_str()), ("minio:9000", "here"));
    }

    #[test]
    fn credentials_come_from_a_profile() {
        let text = "[default]\naws_access_key_id = a\naws_secret_access_key=b\n\
                    [other]\n aws_access_key_id=c\n\
                    aws_secret_access_key = d=\naws_session_token = e\nregion = f\n[half]\n\
                    aws_access_key_id = g\n";
        let of = |profile| {
            Credentials::of_file(text, profile)
                .map(|found| (found.access_key, found.secret_key, found.session_token))
        };
        assert_eq!(of("default"), Some(("a".into(), "b".into(), None)));
        assert_eq!(of("other"), Some(("c".into(), "d=".into(), Some("e".into()))));
        assert_eq!((of("half"), of("none")), (None, None));
        assert!(Credentials::find(&none).is_err_and(|reason| reason.contains("AWS_ACCESS_KEY_ID")));
    }
}
