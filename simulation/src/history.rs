//! Whether a history of transactions on lists serialises, after Kingsbury and Alvaro, "Elle: Inferring
//! Isolation Anomalies from Experimental Observations" (2020).
//!
//! Transactions append unique values to lists and read them. The final lists tell the order of all appends,
//! each read the appends that it has seen. What depends on what is a graph: a cycle in it, with the order in
//! which calls ended and began, is no strictly serialisable history.

use std::collections::HashMap;

/// What a transaction has done to a list.
#[derive(Clone, Debug)]
pub enum Operation {
    /// It has appended this value.
    Append(usize, u64),
    /// It has read these values.
    Read(usize, Vec<u64>),
}

/// A transaction or script that has ended.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// A moment before it began, in calls of the run.
    pub began: u64,
    /// A moment after it ended.
    pub ended: u64,
    /// What it has done, in order.
    pub operations: Vec<Operation>,
}

/// Checks a history against the lists as they are at the end.
pub fn check(history: &[Transaction], lists: &[Vec<u64>]) -> Result<(), String> {
    let mut writers = HashMap::new();
    for (number, transaction) in history.iter().enumerate() {
        for operation in &transaction.operations {
            if let Operation::Append(key, value) = operation {
                writers.insert((*key, *value), number);
            }
        }
    }
    for ((key, value), number) in &writers {
        let count = lists[*key].iter().filter(|other| *other == value).count();
        if count != 1 {
            return Err(format!("value {value} of transaction {number} is {count} times in list {key}"));
        }
    }
    let mut edges = vec![Vec::new(); history.len()];
    let writer = |key: usize, index: usize| writers.get(&(key, lists[key][index])).copied();
    for (key, list) in lists.iter().enumerate() {
        for index in 1..list.len() {
            add(&mut edges, writer(key, index - 1), writer(key, index));
        }
    }
    for (number, transaction) in history.iter().enumerate() {
        for operation in &transaction.operations {
            let Operation::Read(key, seen) = operation else { continue };
            if lists[*key].get(..seen.len()) != Some(seen) {
                return Err(format!("transaction {number} has read {seen:?} from list {key}"));
            }
            if let Some(last) = seen.len().checked_sub(1) {
                add(&mut edges, writer(*key, last), Some(number));
            }
            if seen.len() < lists[*key].len() {
                add(&mut edges, Some(number), writer(*key, seen.len()));
            }
        }
        let later = history.iter().enumerate().filter(|(_, other)| transaction.ended < other.began);
        later.for_each(|(other, _)| edges[number].push(other));
    }
    match has_cycle(&edges) {
        Some(number) => Err(format!("transaction {number} is in a cycle: {:?}", history[number])),
        None => Ok(()),
    }
}

fn add(edges: &mut [Vec<usize>], from: Option<usize>, to: Option<usize>) {
    if let (Some(from), Some(to)) = (from, to)
        && from != to
    {
        edges[from].push(to);
    }
}

/// A node that is left when all that nothing depends on have been taken away, one after the other.
fn has_cycle(edges: &[Vec<usize>]) -> Option<usize> {
    let mut counts = vec![0; edges.len()];
    edges.iter().flatten().for_each(|&to| counts[to] += 1);
    let mut free: Vec<usize> = (0..edges.len()).filter(|&node| counts[node] == 0).collect();
    while let Some(node) = free.pop() {
        for &to in &edges[node] {
            counts[to] -= 1;
            if counts[to] == 0 {
                free.push(to);
            }
        }
    }
    counts.iter().position(|&count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_skew_is_a_cycle() {
        let transaction = |read: usize, write: usize, value: u64| Transaction {
            began: 0,
            ended: 9,
            operations: vec![Operation::Read(read, Vec::new()), Operation::Append(write, value)],
        };
        let history = [transaction(0, 1, 1), transaction(1, 0, 2)];
        assert!(check(&history, &[vec![2], vec![1]]).is_err());
        assert!(check(&history[..1], &[vec![], vec![1]]).is_ok());
    }
}
