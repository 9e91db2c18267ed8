//! The limit on buckets without samples, which is lower here, through the handlers.

use super::range::EMPTY_BUCKETS_MAX;
use crate::testing::Bench;

const REFUSED: &str = "-ERR TSDB: too many buckets\r\n";

/// A bench with as many series, each of so many samples with as many buckets without samples between them as
/// `empty`.
fn bench(series: usize, samples: usize, empty: usize) -> Bench {
    let mut bench = Bench::new();
    for number in 0..series {
        bench.run(&format!("TS.CREATE s{number} LABELS l 1 n {number}"));
        for sample in 0..samples {
            bench.run(&format!("TS.ADD s{number} {} 1", sample * (1 + empty / (samples - 1))));
        }
    }
    bench
}

/// Commands on all series of a bench.
fn commands(series: usize, options: &str) -> Vec<String> {
    let keys: Vec<String> = (0..series).map(|number| format!("s{number}")).collect();
    let names = vec!["avg"; series].join(" ");
    vec![
        format!("TS.MRANGE - + {options} AGGREGATION avg 1 EMPTY FILTER l=1"),
        format!("TS.MREVRANGE - + {options} AGGREGATION avg 1 EMPTY FILTER l=1"),
        format!("TS.MRANGE - + {options} AGGREGATION avg,twa 1 EMPTY FILTER l=1"),
        format!("TS.MRANGE - + {options} AGGREGATION avg 1 EMPTY FILTER l=1 GROUPBY l REDUCE max"),
        format!("TS.MREVRANGE - + {options} AGGREGATION avg 1 EMPTY FILTER l=1 GROUPBY n REDUCE max"),
        format!("TS.NRANGE {series} {} - + {options} AGGREGATION {names} 1 EMPTY", keys.join(" ")),
        format!("TS.NREVRANGE {series} {} - + {options} AGGREGATION {names} 1 EMPTY", keys.join(" ")),
    ]
    .into_iter()
    .map(|command| command.replace("  ", " "))
    .collect()
}

#[test]
fn all_series_of_a_command_share_the_limit() {
    // One more than there may be, once all are counted together.
    let mut one_more = bench(4, 2, EMPTY_BUCKETS_MAX / 4 + 1);
    for command in commands(4, "") {
        assert_eq!(one_more.run(&command), REFUSED, "{command}");
    }
    let alone = one_more.run("TS.RANGE s0 - + AGGREGATION avg 1 EMPTY");
    assert!(alone.starts_with(&format!("*{}\r\n", EMPTY_BUCKETS_MAX / 4 + 3)), "{alone:.20}");
    let mut as_many = bench(4, 2, EMPTY_BUCKETS_MAX / 4);
    for command in commands(4, "") {
        let reply = as_many.run(&command);
        assert!(reply.starts_with('*'), "{command}: {reply:.80}");
    }
}

#[test]
fn buckets_that_are_not_wanted_or_have_samples_do_not_count() {
    let mut wide = bench(4, 2, 10 * EMPTY_BUCKETS_MAX);
    for command in commands(4, "COUNT 5") {
        let reply = wide.run(&command);
        // Groups are made from the earliest bucket on.
        let is_refused = command.starts_with("TS.MREVRANGE") && command.contains("GROUPBY");
        assert_eq!(reply == REFUSED, is_refused, "{command}: {reply:.80}");
    }
    assert_eq!(wide.run("TS.RANGE s0 - + AGGREGATION avg 1 EMPTY"), REFUSED);
    assert!(wide.run("TS.RANGE s0 - + AGGREGATION avg 1").starts_with("*2\r\n"));
    let mut dense = bench(2, EMPTY_BUCKETS_MAX * 3 / 4, 0);
    for command in commands(2, "") {
        assert!(dense.run(&command).starts_with('*'), "{command}");
    }
}
