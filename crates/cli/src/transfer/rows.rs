//! The rows of a CSV file (RFC 4180).
//!
//! A file that was cut off or damaged is to be seen as such, so what other readers let pass is an error here:
//! a quote that stays open, text behind a quoted column, a row with more or fewer columns than the first.

use std::io::{self, BufRead, Chain, Cursor, Read};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads rows, one after the other.
pub(super) struct Rows<R> {
    source: Chain<Cursor<Vec<u8>>, R>,
    /// Columns of the current row; of the first of them, so many count.
    columns: Vec<Vec<u8>>,
    count: usize,
    /// How many columns the first row has.
    expected: Option<usize>,
    /// The line that the current row begins with, and the one that is read next.
    line: u64,
    next_line: u64,
    /// Whether the last row ended in a carriage return, which a line feed may follow.
    after_return: bool,
}

/// Where in a column the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begin,
    Plain,
    Quoted,
    /// Behind a quote that ends the column, unless another one follows.
    AfterQuote,
}

impl<R: BufRead> Rows<R> {
    /// Begins with the first row, which names the columns.
    pub(super) fn new(mut source: R) -> Result<Self, String> {
        let mut begin = Vec::new();
        let length = BYTE_ORDER_MARK.len() as u64;
        source.by_ref().take(length).read_to_end(&mut begin).map_err(|error| error.to_string())?;
        if begin == BYTE_ORDER_MARK {
            begin.clear();
        }
        Ok(Rows {
            source: Cursor::new(begin).chain(source),
            columns: Vec::new(),
            count: 0,
            expected: None,
            line: 1,
            next_line: 1,
            after_return: false,
        })
    }

    /// The columns of the current row.
    pub(super) fn columns(&self) -> &[Vec<u8>] {
        &self.columns[..self.count]
    }

    /// The line that the current row begins with.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next row that is no empty line; whether there is one.
    pub(super) fn next(&mut self) -> Result<bool, String> {
        loop {
            self.line = self.next_line;
            self.count = 0;
            let is_quoted = self.read().map_err(|reason| format!("line {}: {reason}", self.line))?;
            let Some(is_quoted) = is_quoted else { return Ok(false) };
            if self.count > 1 || is_quoted || !self.columns[0].is_empty() {
                break;
            }
        }
        let expected = *self.expected.get_or_insert(self.count);
        if self.count == expected {
            return Ok(true);
        }
        let (line, count) = (self.line, self.count);
        let columns = if count == 1 { "column" } else { "columns" };
        Err(format!("line {line}: {count} {columns}, but the first line has {expected}"))
    }

    /// Reads a row; whether it has quotes, `None` at the end of the file.
    fn read(&mut self) -> Result<Option<bool>, String> {
        let (mut state, mut is_quoted, mut is_begun) = (State::Begin, false, false);
        loop {
            let input = match self.source.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                input => input.map_err(|error| error.to_string())?,
            };
            let Some(&byte) = input.first() else {
                if state == State::Quoted {
                    return Err("a quote is open at the end of the file".to_owned());
                }
                return Ok(is_begun.then_some(is_quoted));
            };
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                self.source.consume(1);
                continue;
            }
            if !is_begun {
                is_begun = true;
                begin_column(&mut self.columns, &mut self.count);
            }
            let column = &mut self.columns[self.count - 1];
            // What stands for itself is taken as one piece.
            let plain = match state {
                State::Begin | State::AfterQuote => 0,
                State::Quoted => input.iter().position(|byte| *byte == b'"').unwrap_or(input.len()),
                State::Plain => input.iter().position(|byte| b",\r\n".contains(byte)).unwrap_or(input.len()),
            };
            if plain > 0 {
                let piece = &input[..plain];
                column.extend_from_slice(piece);
                self.next_line += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
                self.source.consume(plain);
                continue;
            }
            self.source.consume(1);
            state = match (state, byte) {
                (State::Begin, b'"') => {
                    is_quoted = true;
                    State::Quoted
                }
                (State::Quoted, _) => State::AfterQuote,
                (State::AfterQuote, b'"') => {
                    column.push(b'"');
                    State::Quoted
                }
                (_, b',') => {
                    begin_column(&mut self.columns, &mut self.count);
                    State::Begin
                }
                (_, b'\r' | b'\n') => {
                    self.after_return = byte == b'\r';
                    self.next_line += 1;
                    return Ok(Some(is_quoted));
                }
                (State::AfterQuote, _) => {
                    return Err("a quoted column goes on behind its last quote".to_owned());
                }
                (State::Begin | State::Plain, _) => {
                    column.push(byte);
                    State::Plain
                }
            };
        }
    }
}

/// Begins another column, in the room of one of an earlier row if there is one.
fn begin_column(columns: &mut Vec<Vec<u8>>, count: &mut usize) {
    match columns.get_mut(*count) {
        Some(column) => column.clear(),
        None => columns.push(Vec::new()),
    }
    *count += 1;
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// All rows with the lines that they begin with.
    fn rows(text: &str) -> Result<Vec<(u64, Vec<String>)>, String> {
        // Every place is one where the buffer may end.
        let mut rows = Rows::new(BufReader::with_capacity(1, text.as_bytes()))?;
        let mut all = Vec::new();
        while rows.next()? {
            let text = |column: &Vec<u8>| String::from_utf8(column.clone()).expect("text");
            all.push((rows.line(), rows.columns().iter().map(text).collect()));
        }
        Ok(all)
    }

    #[test]
    fn rows_and_their_lines() {
        let row = |line, columns: [&str; 2]| (line, columns.map(str::to_owned).to_vec());
        let wanted = vec![row(1, ["a", "b"]), row(3, ["x,\"y\"\nz", ""]), row(5, ["", "q\"r"])];
        for end in ["\n", "\r\n", "\r"] {
            let text = ["\u{feff}\"a\",b", "", "\"x,\"\"y\"\"\nz\",", ",q\"r"].join(end);
            assert_eq!(rows(&text), Ok(wanted.clone()));
            assert_eq!(rows(&(text + end)), Ok(wanted.clone()));
        }
        assert_eq!(rows("k\n\"\"\n"), Ok(vec![(1, vec!["k".to_owned()]), (2, vec![String::new()])]));
        assert_eq!(rows(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        for (text, reason) in [
            ("a,b\nx,\"y\n\n", "line 2: a quote is open at the end of the file"),
            ("a,b\nx,\"y\"z\n", "line 2: a quoted column goes on behind its last quote"),
            ("a,b\n\"1\n2\",y\nx", "line 4: 1 column, but the first line has 2"),
            ("a,b\nx,y,z\n", "line 2: 3 columns, but the first line has 2"),
        ] {
            assert_eq!(rows(text), Err(reason.to_owned()));
        }
    }
}
