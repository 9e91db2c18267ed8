//! Tests of the table against facts taken from Redis 8.2.3, and of files, command lines and `CONFIG SET`.

use super::*;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `CONFIG GET` of redis-server 8.2.3 shows without a configuration.
const REDIS_DEFAULTS: &str = include_str!("facts/redis-defaults.txt");

/// Directives that Redis does not have.
const OURS: [&str; 59] = [
    "cluster-emulated",
    "aof-reserve-size",
    "archive-keep-daily",
    "archive-keep-hourly",
    "archive-keep-last",
    "archive-keep-log",
    "archive-keep-monthly",
    "archive-keep-weekly",
    "archive-key-file",
    "archive-log",
    "archive-log-interval",
    "archive-schedule",
    "archive-url",
    // Those of Redis 8.10.
    "backup-sealed-ttl",
    "backupdirname",
    "stream-idmp-duration",
    "stream-idmp-maxsize",
    // Those of Redis 8 with its module of filters.
    "bf-error-rate",
    "bf-expansion-factor",
    "bf-initial-size",
    "cf-bucket-size",
    "cf-expansion-factor",
    "cf-initial-size",
    "cf-max-expansions",
    "cf-max-iterations",
    "http-allowed-hosts",
    "http-allowed-origins",
    "http-bind",
    "http-console",
    "http-console-label",
    "http-max-body",
    "http-port",
    "http-timeout",
    "http-tls-port",
    "ignore-unsupported-directives",
    "io-driver",
    "metrics-bind",
    "metrics-port",
    "metrics-timeout",
    "rdb-overwrite-after-skip",
    "rdb-skip-unknown-types",
    "shards",
    "tier-dir",
    "tier-max-size",
    "tier-min-bytes",
    "tier-threads",
    // Those of Redis 8 with its module of time series.
    "ts-chunk-size-bytes",
    "ts-compaction-policy",
    "ts-duplicate-policy",
    "ts-encoding",
    "ts-ignore-max-time-diff",
    "ts-ignore-max-val-diff",
    "ts-num-threads",
    "ts-retention-policy",
    "websocket-max-frame",
    "websocket-max-message",
    "websocket-timeout",
    "worker-packing",
    "worker-threads",
];

/// Those of them that CONFIG GET with a pattern does not show.
const OURS_HIDDEN: [&str; 7] = [
    "tier-pressure",
    "commandlog-request-larger-than",
    "commandlog-large-request-max-len",
    "commandlog-reply-larger-than",
    "commandlog-large-reply-max-len",
    "slowlog-entry-max-argc",
    "slowlog-entry-max-string-len",
];

fn facts() -> BTreeMap<&'static str, &'static str> {
    let lines = REDIS_DEFAULTS.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap_or((line, ""))).collect()
}

fn get(config: &Config, name: &str) -> String {
    let found = config.get(&[name]);
    assert_eq!(found.len(), 1, "{name}");
    String::from_utf8(found[0].1.clone()).expect("values in tests are text")
}

fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<Config, String> {
    config.set(pairs, true).map_err(|error| error.to_string())
}

/// A new empty folder; it is left to the system's temporary folder if a test fails.
fn folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("mantissa-config-{}-{number}", std::process::id()));
    fs::create_dir_all(&path).expect("the temporary folder is writable");
    path.canonicalize().expect("the folder was just made")
}

fn arguments(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn from_args(words: &[&str]) -> Config {
    let (config, _) =
        Config::from_args(&arguments(words)).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    config
}

#[test]
fn defaults_are_those_of_redis() {
    let config = Config::default();
    let facts = facts();
    for (name, value) in &facts {
        assert_eq!(get(&config, name), *value, "{name}");
    }
    let is_ours = |name: &&str| OURS.contains(name) || OURS_HIDDEN.contains(name) || *name == "dir";
    for name in NAMES.iter().map(|name| name.text).filter(|name| !is_ours(name)) {
        assert!(facts.contains_key(name), "{name} is no directive of Redis");
    }
    assert_eq!(get(&config, "dir"), std::env::current_dir().expect("there is a folder").to_string_lossy());
}

#[test]
fn patterns_show_what_redis_shows() {
    let (shown, _) = REDIS_DEFAULTS.split_once("# Shown only").expect("the facts are in two parts");
    let mut expected: Vec<&str> = shown.lines().filter(|line| !line.starts_with('#')).collect();
    expected = expected.into_iter().map(|line| line.split(' ').next().unwrap_or(line)).collect();
    expected.extend(OURS);
    expected.push("dir");
    expected.sort_unstable();
    let found = Config::default().get(&["*"]);
    let names: Vec<&str> =
        found.iter().map(|(name, _)| std::str::from_utf8(name).expect("names are text")).collect();
    assert_eq!(names, expected);
}

#[test]
fn names_come_back_once_and_as_they_were_spelled() {
    let config = Config::default();
    let names = |patterns: &[&str]| -> Vec<String> {
        config
            .get(patterns)
            .into_iter()
            .map(|(name, _)| String::from_utf8_lossy(&name).into_owned())
            .collect()
    };
    assert_eq!(names(&["PORT"]), ["PORT"]);
    assert_eq!(names(&["port", "port", "p[o]rt"]), ["port"]);
    assert_eq!(names(&["*-priority", "hz"]), ["hz", "replica-priority", "slave-priority"]);
    assert_eq!(names(&["key-load-delay", "key-load-*"]), ["key-load-delay"]);
    assert_eq!(names(&["nothing", "nothing*"]), [""; 0]);
}

#[test]
fn every_default_is_accepted_and_prints_in_canonical_form() {
    let config = Config::default();
    let settable = |directive: &&Directive| !matches!(directive.name, "dir" | "replicaof");
    for directive in DIRECTIVES.iter().filter(settable) {
        let text = directive.text(&config);
        let mut again = config.clone();
        assert_eq!(
            again.assign(directive, &directive.split_value(&text), false),
            Ok(()),
            "{}",
            directive.name
        );
        assert_eq!(directive.text(&again), text, "{}", directive.name);
        assert!(directive.is_default(&again), "{}", directive.name);
    }
}

#[test]
fn the_bounds_of_every_number_fit_its_field() {
    for directive in DIRECTIVES {
        let bounds = match directive.kind {
            Kind::Integer { min, max } => [min, max],
            Kind::Unsigned { min, max } => [min as i64, max as i64],
            Kind::Octal { max } => [0, max as i64],
            Kind::Memory { min, .. } => [min as i64, i64::MAX],
            _ => continue,
        };
        for bound in bounds {
            let mut config = Config::default();
            (directive.write)(&mut config, Value::Integer(bound));
            assert_eq!((directive.read)(&config), Value::Integer(bound), "{}", directive.name);
        }
    }
}

/// Name, value, and what Redis 8.2.3 does: `=` and the value it then shows, or the reason for which it
/// refuses.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("timeout", "5", "=5"),
    ("timeout", "05", "argument couldn't be parsed into an integer"),
    ("timeout", "+5", "argument couldn't be parsed into an integer"),
    ("timeout", "5 ", "argument couldn't be parsed into an integer"),
    ("timeout", "", "argument couldn't be parsed into an integer"),
    ("timeout", "99999999999999999999", "argument couldn't be parsed into an integer"),
    ("timeout", "-1", "argument must be between 0 and 2147483647 inclusive"),
    ("port", "65536", "argument must be between 0 and 65535 inclusive"),
    ("maxclients", "-1", "argument must be greater or equal to 0"),
    ("maxclients", "0", "argument must be between 1 and 4294967295 inclusive"),
    ("list-max-listpack-size", "-2147483648", "=-2147483648"),
    ("slowlog-log-slower-than", "-2", "argument must be between -1 and 9223372036854775807 inclusive"),
    ("hz", "0", "=1"),
    ("hz", "501", "=500"),
    ("appendonly", "YES", "=yes"),
    ("appendonly", "maybe", "argument must be 'yes' or 'no'"),
    ("maxmemory", "1k", "=1000"),
    ("maxmemory", "1KB", "=1024"),
    ("maxmemory", "2m", "=2000000"),
    ("maxmemory", "2mb", "=2097152"),
    ("maxmemory", "3g", "=3000000000"),
    ("maxmemory", "3Gb", "=3221225472"),
    ("maxmemory", "010b", "=10"),
    ("maxmemory", "", "=0"),
    ("maxmemory", "1tb", "argument must be a memory value"),
    ("maxmemory", "1.5gb", "argument must be a memory value"),
    ("maxmemory", "-1", "argument must be a memory value"),
    ("maxmemory", "9223372036854775807", "=9223372036854775807"),
    ("maxmemory", "9223372036854775808", "argument must be greater or equal to 0"),
    ("maxmemory", "99999999999gb", "argument must be greater or equal to 0"),
    ("proto-max-bulk-len", "1", "argument must be between 1048576 and 9223372036854775807 inclusive"),
    (
        "proto-max-bulk-len",
        "18446744073709551615",
        "argument must be between 1048576 and 9223372036854775807 inclusive",
    ),
    ("repl-backlog-size", "1", "=16384"),
    ("maxmemory-clients", "20%", "=20%"),
    ("maxmemory-clients", "0%", "=0"),
    ("maxmemory-clients", "5mb", "=5242880"),
    ("maxmemory-clients", "101%", "percentage argument must be less or equal to 100"),
    ("maxmemory-clients", "9223372036854775807", "=9223372036854775807"),
    ("maxmemory-clients", "9223372036854775808", "percentage argument must be less or equal to 100"),
    ("maxmemory-clients", "18446744073709551610", "=6%"),
    ("maxmemory-clients", "18446744073709551616", "=1%"),
    ("maxmemory-clients", "-5%", "argument must be a memory or percent value"),
    ("maxmemory-clients", "%", "argument must be a memory or percent value"),
    ("loglevel", "WARNING", "=warning"),
    (
        "loglevel",
        "loud",
        "argument(s) must be one of the following: debug, verbose, notice, warning, nothing",
    ),
    ("save", "", "="),
    ("save", "60 1", "=60 1"),
    ("save", "+060 01 5 0", "=60 1 5 0"),
    ("save", "60", "Invalid save parameters"),
    ("save", "60 -1", "Invalid save parameters"),
    ("save", "0 1", "Invalid save parameters"),
    ("save", "60  1", "Invalid save parameters"),
    ("notify-keyspace-events", "", "="),
    ("notify-keyspace-events", "A", "=A"),
    ("notify-keyspace-events", "EKA", "=AKE"),
    ("notify-keyspace-events", "AKEmn", "=AKEm"),
    ("notify-keyspace-events", "nmgEK", "=gnKEm"),
    ("notify-keyspace-events", "adtexzhsl$g", "=A"),
    ("notify-keyspace-events", "dtexzhsl$g", "=g$lshzxetd"),
    ("notify-keyspace-events", "texzhsl$gK", "=g$lshzxetK"),
    ("notify-keyspace-events", "Z", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
    (
        "client-output-buffer-limit",
        "",
        "=normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    (
        "client-output-buffer-limit",
        "Normal 1k 2 3 replica 4 5 6 normal 7 8 9",
        "=normal 7 8 9 slave 4 5 6 pubsub 33554432 8388608 60",
    ),
    ("client-output-buffer-limit", "normal 1", "Wrong number of arguments in buffer limit configuration."),
    (
        "client-output-buffer-limit",
        "master 1 2 3",
        "Invalid client class specified in buffer limit configuration.",
    ),
    (
        "client-output-buffer-limit",
        "normal 1x 2 3",
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
    ),
    (
        "client-output-buffer-limit",
        "normal 1 2 -3",
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
    ),
    ("latency-tracking-info-percentiles", "", "="),
    (
        "latency-tracking-info-percentiles",
        "100 0 0.1 33.33333333 1e1 50.0000001",
        "=100 0 0.1 33.333333 10 50",
    ),
    ("latency-tracking-info-percentiles", "a", "Invalid latency-tracking-info-percentiles parameters"),
    ("latency-tracking-info-percentiles", "5  6", "Invalid latency-tracking-info-percentiles parameters"),
    (
        "latency-tracking-info-percentiles",
        "100.1",
        "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
    ),
    ("shutdown-on-sigterm", "force SAVE", "=save force"),
    ("shutdown-on-sigterm", "default", "=default"),
    (
        "shutdown-on-sigterm",
        "",
        "argument(s) must be one of the following: default, save, nosave, now, force",
    ),
    ("shutdown-on-sigint", "save nosave", "shutdown options SAVE and NOSAVE can't be used simultaneously"),
    ("oom-score-adj-values", "1 2 3", "=1 2 3"),
    ("oom-score-adj-values", "1 2", "wrong number of arguments"),
    (
        "oom-score-adj-values",
        "1 2 3000",
        "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
    ),
    ("bind", "127.0.0.1 -::1", "=127.0.0.1 -::1"),
    ("bind", "", "="),
    ("bind", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "Too many bind addresses specified."),
    ("requirepass", "a b", "=a b"),
    ("dbfilename", "a/b", "dbfilename can't be a path, just a filename"),
    ("dir", "", "No such file or directory"),
    ("dir", "/no/such/folder", "No such file or directory"),
    ("dir", "/dev/null", "Not a directory"),
    ("databases", "2", "can't set immutable config"),
    ("proc-title-template", "{foo}", "template format is invalid or contains unknown variables"),
    ("proc-title-template", "{title", "template format is invalid or contains unknown variables"),
    (
        "cluster-announce-hostname",
        "a b",
        "Hostnames may only contain alphanumeric characters, hyphens or dots",
    ),
    ("cluster-announce-human-nodename", "a:b", "Announced human node name contained invalid character"),
];

#[test]
fn set_does_what_redis_does() {
    let (config, _) = Config::from_text("-", b"enable-protected-configs yes").expect("the line is good");
    for (name, value, expected) in SETTINGS {
        match (set(&config, &[(name, value)]), expected.strip_prefix('=')) {
            (Ok(changed), Some(shown)) => assert_eq!(get(&changed, name), shown, "{name} {value:?}"),
            (Err(error), None) => {
                let prefix = "ERR CONFIG SET failed (possibly related to argument";
                assert_eq!(error, format!("{prefix} '{name}') - {expected}"), "{name} {value:?}");
            }
            (result, _) => {
                panic!("{name} {value:?}: {expected} but {:?}", result.map(|config| get(&config, name)))
            }
        }
    }
}

#[test]
fn set_names_the_first_fault_and_changes_all_or_nothing() {
    let config = Config::default();
    let error = |pairs: &[(&str, &str)]| set(&config, pairs).expect_err("the pairs hold a fault");
    let failed = |name: &str, reason: &str| {
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
    };
    let unknown = "ERR Unknown option or number of arguments for CONFIG SET - 'Foo'";
    assert_eq!(error(&[("Foo", "1"), ("daemonize", "no")]), unknown);
    assert_eq!(error(&[("port", "x"), ("Foo", "1")]), unknown);
    assert_eq!(error(&[("include", "x")]), unknown.replace("Foo", "include"));
    assert_eq!(
        error(&[("daemonize", "no"), ("foo", "1")]),
        failed("daemonize", "can't set immutable config")
    );
    let twice = error(&[("maxmemory", "1"), ("MAXMEMORY", "2"), ("daemonize", "no")]);
    assert_eq!(twice, failed("maxmemory", "duplicate parameter"));
    assert_eq!(error(&[("dir", "/")]), failed("dir", "can't set protected config"));
    let number = "argument must be between 0 and 65535 inclusive";
    assert_eq!(error(&[("HZ", "10"), ("PORT", "99999")]), failed("port", number));
    assert_eq!(get(&config, "hz"), "10");
    let both = set(&config, &[("slave-priority", "1"), ("replica-priority", "2"), ("timeout", "3")]);
    let both = both.expect("an alias is another name");
    assert_eq!((get(&both, "slave-priority"), get(&both, "timeout")), ("2".into(), "3".into()));
    let changed: Vec<&str> = both.differences(&config).into_iter().map(|directive| directive.name).collect();
    assert_eq!(changed, ["timeout", "replica-priority"]);
}

#[test]
fn protected_settings_need_permission() {
    let (config, _) = Config::from_text("-", b"enable-protected-configs local").expect("the line is good");
    assert!(config.set(&[("dbfilename", "x")], true).is_ok());
    assert!(config.set(&[("dbfilename", "x")], false).is_err());
}

#[test]
fn a_file_is_read_line_by_line() {
    let lines = [
        "# a comment\r",
        "\r",
        "  PORT\t7000 ",
        "requirepass \"a\\x20b\"",
        "cluster-slave-validity-factor 7",
        "user ann on nopass",
        "rename-command GET \"\"",
        "save 1 1",
        "save 2 2",
        "client-output-buffer-limit pubsub 1 2 3",
        "bind 127.0.0.1 ::1",
        "client-output-buffer-limit \"replica 4 5 6\"",
    ];
    let text = lines.join("\n").into_bytes();
    let (config, warnings) = Config::from_text("x.conf", &text).expect("every line is good");
    assert_eq!((config.port, config.requirepass.as_slice()), (7000, &b"a b"[..]));
    assert_eq!(config.users, [(b"ann".to_vec(), vec![b"on".to_vec(), b"nopass".to_vec()])]);
    assert_eq!(config.rename_commands, [(b"GET".to_vec(), Vec::new())]);
    assert_eq!(get(&config, "save"), "1 1 2 2");
    assert_eq!(get(&config, "client-output-buffer-limit"), "normal 0 0 0 slave 4 5 6 pubsub 1 2 3");
    assert_eq!(config.bind, ["127.0.0.1", "::1"]);
    assert_eq!(config.file(), None);
    assert_eq!(
        warnings.iter().map(|warning| warning.directive.as_str()).collect::<Vec<_>>(),
        ["cluster-replica-validity-factor"]
    );
    let error = config.rename_error(0, "No such command in rename-command").to_string();
    assert!(error.ends_with(
        "\nReading the configuration file 'x.conf', at line 7\n>>> 'rename-command GET \"\"'\n\
         No such command in rename-command"
    ));
    let (config, _) = Config::from_text("x", b"save 1 1\nsave \"\"\nsave 3 3").expect("every line is good");
    assert_eq!(get(&config, "save"), "3 3");
}

#[test]
fn what_has_no_effect_is_named_where_it_is_given() {
    let warnings = |text: &str| -> Vec<String> {
        let (_, warnings) = Config::from_text("x", text.as_bytes()).expect("every line is good");
        warnings.into_iter().map(|warning| warning.to_string()).collect()
    };
    assert_eq!(warnings("port 1\nmaxclients 5"), [""; 0]);
    let head = "The directive";
    let message = |name: &str, why: &str| format!("{head} '{name}' is accepted but has no effect: {why}");
    assert_eq!(
        warnings("io-threads 4\nlist-max-ziplist-entries 5"),
        [
            message("list-max-ziplist-entries", "it is obsolete"),
            message("io-threads", "this version does not implement it yet"),
        ]
    );
}

/// A line and the reason for which Redis 8.2.3 does not start with it, or none if it does.
const LINES: &[(&str, Option<&str>)] = &[
    ("port 1", None),
    ("port '1'", None),
    ("port 1\"2\"", None),
    ("port", Some("wrong number of arguments")),
    ("port 1 2", Some("wrong number of arguments")),
    ("port 1 # comment", Some("wrong number of arguments")),
    ("port \"1", Some("Unbalanced quotes in configuration line")),
    ("port \"1\"2", Some("Unbalanced quotes in configuration line")),
    ("port one", Some("argument couldn't be parsed into an integer")),
    ("unixsocketperm 777", None),
    ("unixsocketperm 888", Some("argument couldn't be parsed as an octal number")),
    ("unixsocketperm 1000", Some("argument must be between 0 and 777 inclusive")),
    ("no-such-thing", Some("Bad directive or wrong number of arguments")),
    ("no-such-thing 1", Some("Bad directive or wrong number of arguments")),
    ("no.such.thing 1", Some("Bad directive or wrong number of arguments")),
    ("include", Some("Bad directive or wrong number of arguments")),
    ("user", Some("Bad directive or wrong number of arguments")),
    ("loadmodule", Some("Bad directive or wrong number of arguments")),
    ("rename-command get", Some("Bad directive or wrong number of arguments")),
    ("sentinel x", Some("sentinel directive while not in sentinel mode")),
    ("loadmodule x y", Some(LOADMODULE)),
    ("loadmodule /x/rejson.so", None),
    ("loadmodule redisbloom.so error_rate 0.5 INITIAL_SIZE 7", None),
    ("loadmodule redisbloom.so ERROR_RATE 2", Some("argument must be a number between 0 and 1")),
    (
        "loadmodule redisbloom.so ERROR_RATE",
        Some("The argument 'ERROR_RATE' of this module is not known here"),
    ),
    ("loadmodule redisbloom.so x y", Some("The argument 'x' of this module is not known here")),
    ("loadmodule xrejson.so", Some(LOADMODULE)),
    ("lookahead", Some("Bad directive or wrong number of arguments")),
    ("lua-replicate-commands yes", None),
    ("io-threads-do-reads yes", None),
    ("save", None),
    ("save \"\"", None),
    ("save \"1 2 3 4\"", None),
    ("save 1 2 3", Some("Invalid save parameters")),
    ("bind", None),
    ("bind \"\"", None),
    ("replicaof no one", None),
    ("slaveof a 1", None),
    ("cluster-enabled no", None),
    ("cluster-enabled yes", Some(CLUSTER)),
    ("replicaof a", Some("wrong number of arguments")),
    ("replicaof a 70000", Some("Invalid master port")),
    ("appendfilename a/b", Some("appendfilename can't be a path, just a filename")),
    ("appendfilename \"\"", Some("appendfilename can't be empty")),
    ("appenddirname \"\"", Some("appenddirname can't be empty")),
    ("backupdirname \"\"", Some("backupdirname can't be empty")),
    ("backupdirname a/b", Some("backupdirname can't be a path, just a dirname")),
    ("backupdirname ..", Some("backupdirname can't be a path, just a dirname")),
    ("backup-sealed-ttl -1", Some("argument must be between 0 and 2147483647 inclusive")),
    ("dir /no/such/folder", Some("No such file or directory")),
    ("logfile /no/such/folder/log", Some("Can't open the log file: No such file or directory")),
    ("client-output-buffer-limit", None),
    ("client-output-buffer-limit \"\"", Some("Wrong number of arguments in buffer limit configuration.")),
    ("notify-keyspace-events", Some("wrong number of arguments")),
];

const CLUSTER: &str = "'cluster-enabled' has no effect: clusters are not supported yet: a server that claims \
                       all slots would start ('cluster-emulated yes' lets clients of a cluster use this \
                       one). 'ignore-unsupported-directives yes' starts it anyway";
const LOADMODULE: &str = "'loadmodule' has no effect: modules are not supported: a server without their \
                          commands and types would start. 'ignore-unsupported-directives yes' starts it \
                          anyway";

#[test]
fn what_has_no_effect_may_be_ignored() {
    let text = "ignore-unsupported-directives yes\ncluster-enabled yes\nloadmodule x";
    let (config, warnings) = Config::from_text("x", text.as_bytes()).expect("it is to be ignored");
    assert!(config.cluster_enabled && config.modules.len() == 1);
    let named: Vec<&str> = warnings.iter().map(|warning| warning.directive.as_str()).collect();
    assert_eq!(named, ["loadmodule", "cluster-enabled"]);
    let undone = Config::from_text("x", b"cluster-enabled yes\ncluster-enabled no");
    assert!(undone.is_ok_and(|(_, warnings)| warnings.is_empty()));
}

#[test]
fn directives_of_valkey_and_of_later_versions_are_accepted() {
    let text = "primaryauth secret\nprimaryuser me\nCommandlog-Execution-Slower-Than 7\n\
                commandlog-slow-execution-max-len 9\nlog-format logfmt\nlookahead 16\nhash-seed \"\"\n\
                rdma-bind a b\ndir /\n";
    let (config, warnings) = Config::from_text("x", text.as_bytes()).expect("it is accepted");
    assert_eq!((config.masterauth.as_slice(), config.masteruser.as_str()), (&b"secret"[..], "me"));
    assert_eq!((config.slowlog_log_slower_than_us, config.slowlog_max_len), (7, 9));
    let named: Vec<&str> = warnings.iter().map(|warning| warning.directive.as_str()).collect();
    assert_eq!(named, ["log-format", "rdma-bind"]);
    // What has not changed stays as it is written.
    assert_eq!(config.rewritten(text.as_bytes()), text.as_bytes());
    let config = set(&config, &[("PrimaryUser", "you")]).expect("it has another name");
    let rewritten = String::from_utf8(config.rewritten(text.as_bytes())).expect("it is text");
    assert!(rewritten.contains("\nmasteruser \"you\"\n") && !rewritten.contains("primaryuser"));
    let pairs = config.get(&[&b"primaryuser"[..], b"primary*"]);
    assert_eq!(pairs, [(b"primaryuser".to_vec(), b"you".to_vec())]);
}

#[test]
fn arguments_of_modules_are_rewritten_as_settings() {
    let text = "bf-error-rate 0.3\nloadmodule /a/redisbloom.so ERROR_RATE 0.5 INITIAL_SIZE 7\n\
                loadmodule \"rejson.so\"\n";
    let (config, _) = Config::from_text("x", text.as_bytes()).expect("they are built in");
    let config =
        set(&config, &[("bf-error-rate", "0.1"), ("bf-initial-size", "100")]).expect("they are settings");
    let rewritten = config.rewritten(text.as_bytes());
    let (again, _) = Config::from_text("x", &rewritten).expect("it is a file");
    assert_eq!((again.bf_error_rate.as_str(), again.bf_initial_size), ("0.1", 100));
    let (config, _) = Config::from_text("x", text.as_bytes()).expect("they are built in");
    let (again, _) = Config::from_text("x", &config.rewritten(text.as_bytes())).expect("it is a file");
    assert_eq!((again.bf_error_rate.as_str(), again.bf_initial_size), ("0.5", 7));
}

#[test]
fn arguments_that_modules_do_not_know_have_no_effect() {
    let of = |text: &str| Config::from_text("x", text.as_bytes());
    let (config, warnings) =
        of("loadmodule redistimeseries.so FOO RETENTION_POLICY 5 retention_policy 6 ENCODING\n\
                                 loadmodule rejson.so JSON_BACKEND SERDE_JSON\n")
        .expect("the modules start with them");
    assert_eq!(config.ts_retention_policy, 5);
    let messages: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    let without = "Arguments of 'loadmodule' have no effect here: ";
    assert_eq!(messages, [format!("{without}FOO ENCODING"), format!("{without}JSON_BACKEND SERDE_JSON")]);
    let (config, _) =
        of("loadmodule redisbloom.so INITIAL_SIZE 5 INITIAL_SIZE 9").expect("it takes the last");
    assert_eq!(config.bf_initial_size, 9);
    for text in ["loadmodule redisbloom.so FOO 1", "loadmodule redisbloom.so INITIAL_SIZE"] {
        assert!(of(text).expect_err("the module does not start").reason().contains("is not known here"));
    }
}

#[test]
fn a_bad_line_stops_the_start() {
    for (line, expected) in LINES {
        let text = format!("timeout 1\n\n{line}\n");
        match (Config::from_text("/etc/x.conf", text.as_bytes()), expected) {
            (Ok(_), None) => {}
            (Err(error), Some(reason)) => {
                let place = "Reading the configuration file '/etc/x.conf', at line 3";
                let head =
                    format!("*** FATAL CONFIG FILE ERROR (Mantissa {}) ***", env!("CARGO_PKG_VERSION"));
                assert_eq!(error.to_string(), format!("{head}\n{place}\n>>> '{line}'\n{reason}"));
            }
            (result, _) => panic!("{line}: {expected:?} but {:?}", result.err()),
        }
    }
    let twice = Config::from_text("x", b"user a on\nuser a off").expect_err("a user is named twice");
    assert_eq!(
        twice.reason(),
        "Error in user declaration 'a': Duplicate user found. A user can only be defined once in config files"
    );
    let cluster =
        Config::from_text("x", b"replicaof a 1\ncluster-enabled yes").expect_err("both are too much");
    assert_eq!(cluster.reason(), "replicaof directive not allowed in cluster mode");
    assert_eq!(cluster.origin(), Some(&Origin::File { path: "x".into(), line: 1 }));
    let secret = Config::from_text("x", b"requirepass secret words").expect_err("two words are too many");
    assert!(!secret.to_string().contains("secret"), "{secret}");
    let secret = Config::from_text("x", b"MasterAuth \"secret").expect_err("a quote is open");
    assert!(secret.to_string().contains(">>> 'MasterAuth ...'"), "{secret}");
}

#[test]
fn no_bytes_make_reading_panic() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    println!("seed {seed:#x}");
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize % below
    };
    let words: Vec<&[u8]> =
        vec![b" ", b"\"", b"'", b"\\", b"\\x", b"\n", b"0", b"-1", b"gb", b"%", b"\xff", b"{", b"["];
    for _ in 0..5_000 {
        let mut text = DIRECTIVES[random(DIRECTIVES.len())].name.as_bytes().to_vec();
        text.push(b' ');
        for _ in 0..random(6) {
            text.extend(words[random(words.len())]);
        }
        // `logfile` would make files.
        if !text.starts_with(b"logfile") {
            let _ = Config::from_text("x", &text);
        }
    }
}

#[test]
fn the_command_line_comes_last() {
    let folder = folder();
    let path = folder.join("a.conf");
    fs::write(&path, "port 1\nsave 9 9\ntimeout 7\n").expect("the folder is writable");
    let file = path.to_str().expect("the temporary folder has a plain name");
    let config =
        from_args(&[file, "--port", "7777", "--save", "60", "1", "--save", "5", "5", "--bind", "::1", "a"]);
    assert_eq!((config.port, config.timeout_s, config.file()), (7777, 7, Some(path.as_path())));
    assert_eq!(get(&config, "save"), "9 9 60 1 5 5");
    assert_eq!(config.bind, ["::1", "a"]);
    let save = |words: &[&str]| get(&from_args(words), "save");
    assert_eq!(save(&[file, "--save", ""]), "");
    assert_eq!(save(&["--save", "1 2", "--save", "--port", "1"]), "");
    assert_eq!(save(&["--port", "1", "--save"]), "");
    assert_eq!(save(&["--save 3 4", "--port 8", "--hz", "20"]), "3 4");
    assert_eq!(from_args(&["--requirepass", "--secret"]).requirepass, b"--secret");
    assert_eq!(from_args(&["--requirepass", "it's \"x\" \\"]).requirepass, b"it's \"x\" \\");
    assert_eq!(from_args(&[]), Config::default());
    fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn a_bad_command_line_is_shown_as_it_was_given() {
    let error = |words: &[&str]| {
        let error = Config::from_args(&arguments(words)).expect_err("the words hold a fault").to_string();
        error.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or(error)
    };
    let line = "Reading the command line\n>>> ";
    let reason = "argument couldn't be parsed into an integer";
    assert_eq!(error(&["--port", "a b"]), format!("{line}'--port \"a b\"'\n{reason}"));
    assert_eq!(error(&["--port"]), format!("{line}'--port'\nwrong number of arguments"));
    assert_eq!(
        error(&["--nope", "1"]),
        format!("{line}'--nope 1'\nBad directive or wrong number of arguments")
    );
    assert_eq!(
        error(&["/no/such/file"]),
        "Fatal error, can't open config file '/no/such/file': No such file or directory"
    );
}

#[test]
fn files_include_files() {
    let folder = folder();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("the folder is writable");
    let read = || Config::from_args(&[folder.join("main.conf").into_os_string()]);
    let name = folder.to_str().expect("the temporary folder has a plain name");
    fs::create_dir_all(folder.join("parts")).expect("the folder is writable");
    write(
        "main.conf",
        &format!("dir {name}\ninclude parts/*.conf\ninclude {name}/p[a-z]rts/last.end\ntimeout 9"),
    );
    write("parts/b.conf", "port 2\ntimeout 1");
    write("parts/a.conf", "port 1\nhz 11");
    write("parts/.c.conf", "port 3");
    write("parts/last.end", "include parts/nothing*\ntcp-keepalive 4");
    let (config, _) = read().expect("all files are good");
    assert_eq!((config.port, config.timeout_s, config.hz, config.tcp_keepalive_s), (2, 9, 11, 4));
    assert_eq!(config.dir, name);
    write("parts/b.conf", "port 2\nport x");
    let error = read().expect_err("an included file is bad").to_string();
    assert!(error.contains("parts/b.conf', at line 2\n>>> 'port x'"), "{error}");
    write("parts/b.conf", "include b.conf");
    let error = read().expect_err("an included file is missing").to_string();
    assert_eq!(error, "Fatal error, can't open config file 'b.conf': No such file or directory");
    write("parts/b.conf", "include parts/b.conf");
    let error = read().expect_err("a file that includes itself").to_string();
    assert!(error.ends_with("\nincludes are nested too deeply"), "{error}");
    fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn rewriting_keeps_what_it_can() {
    let old = "# Head\n\ndir /\nport 7000 \nSLAVE-priority 100\n  maxmemory 1024mb\nsave 1 1\nsave 2 2\n\
        save 3 3\n# Tail\nrename-command GET \"\"\ninclude /dev/null\nhz 10\nhz 20\nrequirepass a\n";
    let (config, _) = Config::from_text("x", old.as_bytes()).expect("every line is good");
    assert_eq!(
        String::from_utf8(config.rewritten(old.as_bytes())).expect("all is text"),
        old.replace("hz 10\nhz 20\n", "hz 20\n")
    );
    let changes = [
        ("port", "7001"),
        ("replica-priority", "5"),
        ("save", "9 9"),
        ("timeout", "3"),
        ("requirepass", "x \"y\n"),
        ("client-output-buffer-limit", "pubsub 1024 5 7"),
        ("notify-keyspace-events", "KEA"),
        ("appendonly", "yes"),
        ("bind", ""),
    ];
    let config = set(&config, &changes).expect("every value is good");
    let new = config.rewritten(old.as_bytes());
    let expected = "# Head\n\ndir /\nport 7001\nreplica-priority 5\n  maxmemory 1024mb\nsave 9 9\n# Tail\n\
        rename-command GET \"\"\ninclude /dev/null\nhz 20\nrequirepass \"x \\\"y\\n\"\n\
        # Settings below were added by CONFIG REWRITE\nbind \"\"\ntimeout 3\nappendonly yes\n\
        client-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit replica 256mb 64mb 60\n\
        client-output-buffer-limit pubsub 1kb 5 7\nnotify-keyspace-events \"AKE\"\n";
    assert_eq!(String::from_utf8_lossy(&new), expected);
    assert_eq!(config.rewritten(&new), new, "a second rewrite changes nothing");
    let (again, _) = Config::from_text("x", &new).expect("every line is good");
    let differences: Vec<&str> =
        again.differences(&config).into_iter().map(|directive| directive.name).collect();
    assert_eq!(differences, [""; 0]);
}

#[test]
fn every_setting_survives_a_rewrite() {
    // Something else than the default for each kind.
    let other = |directive: &Directive| -> String {
        match directive.kind {
            Kind::Bool => if directive.default == "yes" { "no" } else { "yes" }.into(),
            Kind::Integer { min, .. } if directive.default != min.to_string() => min.to_string(),
            Kind::Integer { min, .. } => (min + 1).to_string(),
            Kind::Unsigned { .. } | Kind::Octal { .. } => "7".into(),
            Kind::Memory { .. } | Kind::MemoryOrPercentage => "7654321".into(),
            Kind::Choice(names) => {
                names.iter().find(|name| **name != directive.default).unwrap_or(&"").to_string()
            }
            Kind::Checked(_) if directive.name == "locale-collate" => "C".into(),
            Kind::Checked(_) if directive.name == "archive-schedule" => "every 6h".into(),
            Kind::Checked(_) if directive.name == "ts-chunk-size-bytes" => "128".into(),
            Kind::Checked(_) if directive.name == "ts-compaction-policy" => "max:1M:1h;avg:1h:0s:5m".into(),
            Kind::Checked(_) if directive.name == "ts-ignore-max-val-diff" => "0.5".into(),
            Kind::Checked(_) if directive.name == "bf-error-rate" => "0.5".into(),
            Kind::Text | Kind::Checked(_) => "other".into(),
            Kind::Bytes => "a \"b\" \\ \x07".into(),
            Kind::Directory => "/".into(),
            Kind::Save => "7 8 9 10".into(),
            Kind::Bind => "::1 127.0.0.1".into(),
            Kind::OutputLimits => "normal 1 2 3".into(),
            Kind::Events => "Kg".into(),
            Kind::Percentiles => "1 2.5".into(),
            Kind::OomScores => "-1 2 3".into(),
            Kind::ReplicaOf => "host 123".into(),
            Kind::Shutdown => "save force".into(),
        }
    };
    let mut config = Config::default();
    for directive in DIRECTIVES.iter().filter(|directive| directive.name != "logfile") {
        let text = other(directive);
        let result = config.assign(directive, &directive.split_value(text.as_bytes()), false);
        assert_eq!(result, Ok(()), "{} {text}", directive.name);
        assert!(!directive.is_default(&config), "{} {text}", directive.name);
    }
    config.cluster_enabled = false;
    let (again, _) = Config::from_text("x", &config.rewritten(b"")).expect("what we write, we read");
    let differences: Vec<&str> =
        again.differences(&config).into_iter().map(|directive| directive.name).collect();
    assert_eq!(differences, [""; 0]);
}

#[test]
fn a_rewrite_replaces_the_file_and_not_a_link_to_it() {
    let folder = folder();
    let (path, link) = (folder.join("real.conf"), folder.join("link.conf"));
    fs::write(&path, "port 1\ndir /\n").expect("the folder is writable");
    std::os::unix::fs::symlink(&path, &link).expect("the folder is writable");
    let mut permissions = fs::metadata(&path).expect("the file is there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    fs::set_permissions(&path, permissions).expect("the file is ours");
    let config =
        from_args(&[link.to_str().expect("the temporary folder has a plain name"), "--timeout", "5"]);
    config.rewrite(config.file().expect("there is a file")).expect("the folder is writable");
    let expected = "port 1\ndir /\n# Settings below were added by CONFIG REWRITE\ntimeout 5\n";
    assert_eq!(fs::read_to_string(&path).ok().as_deref(), Some(expected));
    assert!(fs::symlink_metadata(&link).is_ok_and(|metadata| metadata.is_symlink()));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(&path).expect("the file is there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(&folder).expect("the folder is there").count(), 2, "no temporary file is left");
    let nowhere = config.rewrite(&folder.join("no/such/file")).expect_err("there is no such folder");
    assert_eq!(nowhere.kind(), std::io::ErrorKind::NotFound);
    fs::remove_dir_all(folder).expect("the folder is ours");
}
