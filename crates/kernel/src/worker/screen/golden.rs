//! What is on the screen after some bytes, as the standards of terminals say it, and not as the model does.

use vt100::Color;

use super::Screen;

/// What the rows of a screen of 6 by 12 say after these bytes.
const ROWS: [(&str, &str, [&str; 6]); 11] = [
    ("a line wraps at its last column", "abcdefghijklmn", ["abcdefghijkl", "mn", "", "", "", ""]),
    ("a full line waits with its wrap", "abcdefghijkl\rX", ["Xbcdefghijkl", "", "", "", "", ""]),
    ("a wide character takes two columns", "日本x", ["日本x", "", "", "", "", ""]),
    (
        "a wide one that has no room goes to the next line",
        "abcdefghijk日",
        ["abcdefghijk", "日", "", "", "", ""],
    ),
    ("what combines takes none", "e\u{301}x\u{308}y", ["e\u{301}x\u{308}y", "", "", "", "", ""]),
    ("half of a wide character is none", "日本\x1b[1;2Hx", [" x本", "", "", "", "", ""]),
    ("the other screen is another", "main\x1b[?1049h\x1b[2;2Hother", ["", " other", "", "", "", ""]),
    (
        "and the main one comes back with its cursor",
        "main\x1b[?1049h\x1b[Hother\x1b[?1049l!",
        ["main!", "", "", "", "", ""],
    ),
    (
        "a scroll region scrolls alone",
        "1\r\n2\r\n3\r\n4\r\n5\r\n6\x1b[2;4r\x1b[4;1H\nx",
        ["1", "3", "4", "x", "5", "6"],
    ),
    ("also backwards", "1\r\n2\r\n3\r\n4\r\n5\r\n6\x1b[2;4r\x1b[2;1H\x1bMx", ["1", "x", "2", "3", "5", "6"]),
    ("without one the top line goes", "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7", ["2", "3", "4", "5", "6", "7"]),
];

fn after(bytes: &[u8], step: usize) -> Screen {
    let mut screen = Screen::new(6, 12);
    bytes.chunks(step).for_each(|piece| assert!(screen.take(piece)));
    screen
}

/// The same once more, painted by its picture.
fn painted(screen: &Screen) -> Screen {
    after(&screen.picture(b""), usize::MAX)
}

#[test]
fn must_show_8_bytes_make_the_rows_that_a_terminal_shows() {
    for (what, bytes, wanted) in ROWS {
        for step in [1, 3, usize::MAX] {
            let screen = after(bytes.as_bytes(), step);
            for screen in [&painted(&screen), &screen] {
                let rows: Vec<String> = screen.parser.screen().rows(0, 12).collect();
                let rows: Vec<&str> = rows.iter().map(|row| row.trim_end()).collect();
                assert_eq!(rows, wanted, "{what}, by {step}");
            }
        }
    }
}

#[test]
fn must_show_8_colours_are_those_that_were_said_in_each_way_of_saying_them() {
    let rgb = Color::Rgb(255, 128, 7);
    for (said, front, back) in [
        ("\x1b[38;2;255;128;7m", rgb, Color::Default),
        ("\x1b[38:2:255:128:7m", rgb, Color::Default),
        ("\x1b[48;2;255;128;7m", Color::Default, rgb),
        ("\x1b[48:2:255:128:7m", Color::Default, rgb),
        ("\x1b[38;5;196m", Color::Idx(196), Color::Default),
        ("\x1b[38:5:196m", Color::Idx(196), Color::Default),
        ("\x1b[48;5;232;38;2;255;128;7m", rgb, Color::Idx(232)),
        ("\x1b[48:5:232;38:2:255:128:7m", rgb, Color::Idx(232)),
        ("\x1b[31;102m", Color::Idx(1), Color::Idx(10)),
        ("\x1b[38;2;255;128;7;48;5;3m\x1b[39;49m", Color::Default, Color::Default),
    ] {
        for step in [1, usize::MAX] {
            let screen = after(format!("{said}x日\x1b[my").as_bytes(), step);
            for screen in [&painted(&screen), &screen] {
                let cell = |col| screen.parser.screen().cell(0, col).expect("on the screen");
                for col in [0, 1] {
                    assert_eq!(
                        (cell(col).fgcolor(), cell(col).bgcolor()),
                        (front, back),
                        "{said:?} at {col}"
                    );
                }
                let plain = (cell(3).contents(), cell(3).fgcolor(), cell(3).bgcolor());
                assert_eq!(plain, ("y", Color::Default, Color::Default), "{said:?}");
            }
        }
    }
}

#[test]
fn must_show_8_each_cell_is_as_wide_as_its_character() {
    let screen = after("a日e\u{301}語".as_bytes(), 1);
    let wanted = [("a", 1), ("日", 2), ("", 0), ("e\u{301}", 1), ("語", 2), ("", 0)]
        .map(|(text, width)| (text.to_owned(), width));
    for screen in [&painted(&screen), &screen] {
        let found = (0..6).map(|col| {
            let cell = screen.parser.screen().cell(0, col).expect("on the screen");
            let width = if cell.is_wide_continuation() { 0 } else { 1 + u8::from(cell.is_wide()) };
            (cell.contents().to_owned(), width)
        });
        assert_eq!(found.collect::<Vec<_>>(), wanted);
    }
}
