//! The differences between two snapshots.

use super::value_equality::{are_equal_lists, words};
use super::{Snapshot, Variable, are_equal, is_administrative, is_list};

/// How a variable differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Somebody set it to another value.
    Value,
    /// It has another default.
    Default,
    /// Only B has it.
    Added,
    /// Only A has it.
    Removed,
    /// B accepts it but it has no effect.
    Ignored,
    /// It is deprecated in B, but not in A.
    Deprecated,
    /// B refuses words or numbers that A accepts.
    Narrowed,
    /// It can be changed at run time in only one of them.
    Dynamic,
}

impl Kind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Kind; 8] = [
        Kind::Value,
        Kind::Default,
        Kind::Removed,
        Kind::Ignored,
        Kind::Narrowed,
        Kind::Deprecated,
        Kind::Dynamic,
        Kind::Added,
    ];
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The variable.
    pub name: String,
    /// How it differs.
    pub kind: Kind,
    /// Its value in A.
    pub a: Option<String>,
    /// Its value in B.
    pub b: Option<String>,
    /// Where A's value comes from.
    pub a_from: Option<String>,
    /// Where B's value comes from.
    pub b_from: Option<String>,
    /// A further remark.
    pub note: Option<String>,
    /// Whether it only identifies the server, its files or its machine.
    pub is_administrative: bool,
}

/// Compares two snapshots.
#[must_use]
pub fn compare(a: &Snapshot, b: &Snapshot) -> Vec<Difference> {
    let mut found = Vec::new();
    for (name, left) in &a.variables {
        match b.variables.get(name) {
            Some(right) => found.extend(both(name, (a, left), (b, right))),
            None => found.extend(only(name, Kind::Removed, (a, left), b)),
        }
    }
    for (name, right) in &b.variables {
        if !a.variables.contains_key(name) {
            found.extend(only(name, Kind::Added, (b, right), a));
        }
    }
    found.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
    found
}

/// A variable that only one side has, if the other side would know it.
fn only(
    name: &str,
    kind: Kind,
    (side, variable): (&Snapshot, &Variable),
    other: &Snapshot,
) -> Option<Difference> {
    let inert = variable.ignored.is_some();
    let seen = variable.is_variable && other.has_variables
        || variable.option.is_some() && !inert && other.has_options;
    // Losing an option without an effect is no loss.
    if inert && !variable.is_variable
        || !(seen || side.is_partial())
        || other.is_partial() && !side.is_partial()
    {
        return None;
    }
    let mut difference = new(name, kind, variable, variable);
    let text = shown(variable);
    let from = from(variable);
    if kind == Kind::Added {
        (difference.b, difference.b_from) = (text, from);
    } else {
        (difference.a, difference.a_from) = (text, from);
    }
    difference.note.clone_from(&variable.deprecated);
    Some(difference)
}

fn both(
    name: &str,
    (a, left): (&Snapshot, &Variable),
    (b, right): (&Snapshot, &Variable),
) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut push = |kind, one: Option<String>, other: Option<String>, note: Option<String>| {
        let mut difference = new(name, kind, left, right);
        if matches!(kind, Kind::Value) {
            (difference.a_from, difference.b_from) = (from(left), from(right));
        }
        (difference.a, difference.b, difference.note) = (one, other, note);
        found.push(difference);
    };
    // A variable may still exist after its option was removed.
    let inert = |variable: &Variable| variable.ignored.clone().filter(|_| !variable.is_variable);
    match (inert(left), inert(right)) {
        (None, Some(said)) => {
            push(Kind::Ignored, shown(left), None, said_more(said));
            return found;
        }
        (Some(_), None) => {
            push(Kind::Added, None, shown(right), None);
            return found;
        }
        (Some(_), Some(_)) => return found,
        (None, None) => {}
    }
    if let Some((kind, one, other)) = value(name, left, right) {
        push(kind, one, other, None);
    }
    if a.is_partial() || b.is_partial() {
        return found;
    }
    if let (None, Some(said)) = (&left.deprecated, &right.deprecated) {
        push(Kind::Deprecated, None, None, Some(said.clone()));
    }
    if let Some(lost) = narrowed(left, right) {
        push(Kind::Narrowed, None, None, Some(lost));
    }
    if left.is_variable
        && right.is_variable
        && left.is_fixed != right.is_fixed
        && left.kind.is_some()
        && right.kind.is_some()
    {
        let word = |variable: &Variable| if variable.is_fixed { "restart" } else { "SET GLOBAL" }.to_owned();
        push(Kind::Dynamic, Some(word(left)), Some(word(right)), None);
    }
    found
}

/// How the values of two variables differ. Where nobody set a value the defaults are compared: a server
/// computes some values from others when it starts.
fn value(name: &str, a: &Variable, b: &Variable) -> Option<(Kind, Option<String>, Option<String>)> {
    let kinds = if a.kind.is_some() { a } else { b };
    let are_equal = |one: &str, other: &str| {
        if is_list(name) { are_equal_lists(one, other) } else { are_equal(kinds, one, other) }
    };
    let same = |one: &Option<String>, other: &Option<String>| {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        are_equal(&text(one), &text(other))
    };
    let defaults = a.default.is_some() && b.default.is_some();
    if a.is_set() || b.is_set() {
        // A value that one side does not tell is not a difference.
        let (one, other) = (shown(a)?, shown(b)?);
        if !are_equal(&one, &other) {
            return Some((Kind::Value, Some(one), Some(other)));
        }
    } else if defaults && !same(&a.default, &b.default) {
        return Some((Kind::Default, a.default.clone(), b.default.clone()));
    } else if a.value.is_some() && b.value.is_some() && !same(&a.value, &b.value) {
        return Some((Kind::Value, a.value.clone(), b.value.clone()));
    }
    None
}

/// The value of a variable: what somebody set, else its default.
fn shown(variable: &Variable) -> Option<String> {
    let (value, default) = (variable.value.clone(), variable.default.clone());
    if variable.is_set() { value.or(default) } else { default.or(value) }
}

/// A server's message about an option without effect, unless it is the usual one.
fn said_more(said: String) -> Option<String> {
    Some(said).filter(|said| !said.starts_with("was removed"))
}

/// `CONFIG /etc/mysql/my.cnf`
fn from(variable: &Variable) -> Option<String> {
    let origin = variable.origin.clone()?;
    Some(match &variable.file {
        Some(file) => format!("{origin} {file}"),
        None => origin,
    })
}

/// What B does not accept any more.
fn narrowed(a: &Variable, b: &Variable) -> Option<String> {
    if a.kind != b.kind {
        return None;
    }
    let mut lost = Vec::new();
    let (before, after) = (words(&a.words.join(",")), words(&b.words.join(",")));
    if !after.is_empty() {
        let gone: Vec<String> = before.difference(&after).map(|word| word.to_uppercase()).collect();
        if !gone.is_empty() {
            lost.push(format!("no longer {}", gone.join(", ")));
        }
    }
    let bound = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<i128>().ok());
    if let (Some(before), Some(after)) = (bound(&a.min), bound(&b.min))
        && after > before
    {
        lost.push(format!("at least {after}, was {before}"));
    }
    if let (Some(before), Some(after)) = (bound(&a.max), bound(&b.max))
        && after < before
    {
        lost.push(format!("at most {after}, was {before}"));
    }
    (!lost.is_empty()).then(|| lost.join("; "))
}

fn new(name: &str, kind: Kind, a: &Variable, b: &Variable) -> Difference {
    // Without an origin somebody may have set a server's value: two servers are compared as they are.
    let is_set = |variable: &Variable| variable.is_set() && variable.origin.is_some();
    let are_servers = a.value.is_some() && b.value.is_some() && (a.origin.is_none() || b.origin.is_none());
    let by_machine = (a.is_by_machine || b.is_by_machine)
        && !(is_set(a) || is_set(b) || are_servers)
        && matches!(kind, Kind::Value | Kind::Default);
    Difference {
        name: name.to_owned(),
        kind,
        a: None,
        b: None,
        a_from: None,
        b_from: None,
        note: None,
        is_administrative: by_machine || is_administrative(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(has: &str, lines: &str) -> Snapshot {
        let text = format!("remora variables 1\ntitle\tx\nversion\tmariadb-1.2.3\nhas\t{has}\n\n{lines}");
        Snapshot::read(&text).unwrap()
    }

    fn told(a: &Snapshot, b: &Snapshot) -> Vec<String> {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let all = compare(a, b).into_iter();
        all.map(|found| {
            let administrative = if found.is_administrative { " (a)" } else { "" };
            format!("{:?} {} {} {}{administrative}", found.kind, found.name, text(&found.a), text(&found.b))
        })
        .collect()
    }

    #[test]
    fn series_differ_by_defaults_and_names() {
        let a = side(
            "options variables",
            "a\tdefault=1\toption=none\tvariable\nb\tdefault=64M\toption=none\tvariable\nc\tdefault=x\toption=none\tvariable
d\tdefault=1\toption=none\tvariable\ttype=ENUM\twords=A,B\ne\tdefault=80\toption=none\tvariable\tmachine
f\tdefault=0\toption=none\tvariable\ttype=INT\nh\toption=none\tignored=was removed\ni\tdefault=1\toption=none\tignored=was removed\tvariable\n",
        );
        let b = side(
            "options variables",
            "a\tdefault=2\toption=none\tvariable\nb\tdefault=67108864\toption=none\tvariable\nc\toption=optional\tignored=was removed
d\tdefault=1\toption=none\tvariable\ttype=ENUM\twords=A\tdeprecated=soon gone\ne\tdefault=90\toption=none\tvariable
f\tdefault=0\toption=none\tvariable\ttype=INT\tfixed\ng\tdefault=new\toption=none\tvariable\ni\tdefault=1\toption=none\tvariable\n",
        );
        let expected = [
            "Default a 1 2",
            "Default e 80 90 (a)",
            "Added g - new",
            "Ignored c x -",
            "Deprecated d - -",
            "Narrowed d - -",
            "Dynamic f SET GLOBAL restart",
        ];
        assert_eq!(told(&a, &b), expected);
        assert_eq!(told(&a, &a), Vec::<String>::new());
    }

    #[test]
    fn servers_differ_by_their_settings() {
        let a = side(
            "variables",
            "a\tdefault=1\tvalue=5\torigin=CONFIG\tfile=/my.cnf\tvariable\nb\tdefault=1\tvalue=1\torigin=COMPILE-TIME\tvariable
c\tdefault=0\tvalue=7\torigin=COMPILE-TIME\tvariable\nhostname\tvalue=x\torigin=COMPILE-TIME\tvariable
o\tdefault=0\tvalue=9\torigin=AUTO\tvariable\tmachine\n",
        );
        let b = side(
            "variables",
            "a\tdefault=1\tvalue=1\torigin=COMPILE-TIME\tvariable\nb\tdefault=2\tvalue=2\torigin=COMPILE-TIME\tvariable
c\tdefault=0\tvalue=8\torigin=COMPILE-TIME\tvariable\nhostname\tvalue=y\torigin=COMPILE-TIME\tvariable
o\tdefault=0\tvalue=8\torigin=AUTO\tvariable\tmachine\n",
        );
        let expected =
            ["Value a 5 1", "Value c 7 8", "Value hostname x y (a)", "Value o 9 8 (a)", "Default b 1 2"];
        assert_eq!(told(&a, &b), expected);
        assert_eq!(compare(&a, &b)[0].a_from.as_deref(), Some("CONFIG /my.cnf"));
        // A server that tells no origins is compared as it is.
        let one = side("variables", "back_log\tdefault=80\tvalue=70\tvariable\tmachine\n");
        let other = side("variables", "back_log\tdefault=80\tvalue=80\tvariable\tmachine\n");
        assert_eq!(told(&one, &other), ["Value back_log 70 80"]);
        let series = side("options variables", "back_log\tdefault=80\toption=none\tvariable\tmachine\n");
        assert_eq!(told(&one, &series), ["Value back_log 70 80 (a)"]);
        // A computed value is not a difference from a series.
        let series = side("options variables", "c\tdefault=0\toption=none\tvariable\n");
        assert!(told(&a, &series).iter().all(|line| !line.contains(" c ")), "{:?}", told(&a, &series));
    }

    /// What the difference of one variable is between two sides that have these parts.
    fn one(a: (&str, &str), b: (&str, &str)) -> Vec<String> {
        let side = |(has, fields): (&str, &str)| {
            side(has, &if fields == "-" { String::new() } else { format!("v\t{fields}\n") })
        };
        let (a, b) = (side(a), side(b));
        compare(&a, &b)
            .into_iter()
            .map(|it| {
                let parts = [it.a, it.b, it.a_from, it.b_from, it.note];
                let parts = parts.map(|part| part.unwrap_or_else(|| "-".to_owned()));
                format!("{:?} {}{}", it.kind, parts.join(" "), if it.is_administrative { " (a)" } else { "" })
            })
            .collect()
    }

    #[test]
    fn variables_of_one_side_alone_are_shown() {
        let alone = |side: (&str, &str), other: &str| one(side, (other, "-"));
        const ALL: &str = "options variables";
        let set = "default=1\tvalue=2\torigin=CONFIG\tfile=my.cnf:1\tdeprecated=soon\tvariable";
        assert_eq!(alone((ALL, set), "variables"), ["Removed 2 - CONFIG my.cnf:1 - soon"]);
        assert_eq!(one((ALL, "-"), (ALL, set)), ["Added - 2 - CONFIG my.cnf:1 soon"]);
        // A variable is not among options, and an option not among variables.
        let (option, variable) = ("default=1\toption=none", "default=1\tvariable");
        assert_eq!(alone((ALL, option), "options"), ["Removed 1 - - - -"]);
        assert_eq!(alone((ALL, variable), "variables"), ["Removed 1 - - - -"]);
        let none = Vec::<String>::new();
        assert_eq!(
            [alone((ALL, variable), "options"), alone((ALL, option), "variables")],
            [none.clone(), none.clone()]
        );
        // An option that does nothing is no loss; a variable that lives on is.
        assert_eq!(alone((ALL, "option=none\tignored=was removed"), ALL), none);
        assert_eq!(alone((ALL, "option=none\tignored=was removed\tvariable"), "options"), none);
        assert_eq!(alone((ALL, "default=1\tignored=was removed\tvariable"), ALL), ["Removed 1 - - - -"]);
        // What a file does not ask for is no difference; what it asks for and nobody has is.
        assert_eq!(alone((ALL, variable), ""), none);
        assert_eq!(alone(("", "value=1\torigin=CONFIG"), ALL), ["Removed 1 - CONFIG - -"]);
    }

    #[test]
    fn options_without_effect_are_shown_apart() {
        const ALL: &str = "options variables";
        let both = |a: &str, b: &str| one((ALL, a), (ALL, b));
        let (works, inert) = ("default=1\toption=none", "option=none\tignored=is not for you");
        assert_eq!(both(works, inert), ["Ignored 1 - - - is not for you"]);
        assert_eq!(both(works, "option=none\tignored=was removed in 12"), ["Ignored 1 - - - -"]);
        assert_eq!(both(inert, works), ["Added - 1 - - -"]);
        assert_eq!(both(inert, inert), Vec::<String>::new());
    }

    #[test]
    fn a_narrower_range_is_shown() {
        let both = |a: &str, b: &str| one(("options", a), ("options", b));
        let none = Vec::<String>::new();
        let narrowed = |note: &str| vec![format!("Narrowed - - - - {note}")];
        assert_eq!(both("type=SET\twords=a,B,C", "type=SET\twords=C,d"), narrowed("no longer A, B"));
        assert_eq!(both("type=SET\twords=A", "type=SET\twords=A,B"), none);
        assert_eq!(both("type=SET\twords=A", "type=SET"), none);
        assert_eq!(both("type=SET\twords=A,B", "type=ENUM\twords=A"), none);
        let bounds = |min: i32, max: i32| format!("type=INT\tmin={min}\tmax={max}");
        assert_eq!(both(&bounds(1, 9), &bounds(2, 8)), narrowed("at least 2, was 1; at most 8, was 9"));
        assert_eq!(
            [both(&bounds(1, 9), &bounds(1, 9)), both(&bounds(1, 9), &bounds(0, 10))],
            [none.clone(), none.clone()]
        );
        assert_eq!(both("deprecated=x", "deprecated=y"), none);
        assert_eq!(both("min=1", "deprecated=y"), ["Deprecated - - - - y"]);
        // A file says nothing of these.
        let partial = [
            one(("", "min=1"), ("options", "deprecated=y")),
            one(("options", "min=1"), ("", "deprecated=y")),
        ];
        assert_eq!(partial, [none.clone(), none.clone()]);
        let fixed = ["variable", "variable\tfixed"];
        // Where one side does not tell its type it does not tell this either.
        assert_eq!(both(&format!("type=INT\t{}", fixed[0]), fixed[1]), none);
        assert_eq!(both(fixed[0], &format!("type=INT\t{}", fixed[1])), none);
        assert_eq!(both("type=INT\tvariable", "type=INT\tfixed"), none);
        assert_eq!(both("type=INT", "type=INT\tvariable\tfixed"), none);
        assert_eq!(
            both("type=INT\tvariable\tfixed", "type=INT\tvariable"),
            ["Dynamic restart SET GLOBAL - - -"]
        );
    }

    #[test]
    fn values_are_compared_by_meaning() {
        let both = |a: &str, b: &str| one(("variables", a), ("variables", b));
        let none = Vec::<String>::new();
        assert_eq!(both("default=1\tvalue=2", "default=1\tvalue=1"), ["Value 2 1 - - -"]);
        assert_eq!(both("default=1\tvalue=2", "default=2"), none);
        // What one side does not tell is no difference.
        assert_eq!(both("value=2", "origin=AUTO"), none);
        assert_eq!(both("default=1\tvalue=3\torigin=AUTO", "value=3\torigin=AUTO"), none);
        assert_eq!(
            both("default=1\tvalue=3\torigin=AUTO", "value=4\torigin=AUTO"),
            ["Value 3 4 AUTO AUTO -"]
        );
        assert_eq!(
            both("value=3\torigin=AUTO", "default=1\tvalue=4\torigin=AUTO"),
            ["Value 3 4 AUTO AUTO -"]
        );
        assert_eq!(both("default=1", "default=2\tvalue=1\torigin=AUTO"), ["Default 1 2 - - -"]);
        assert_eq!(both("default=64K\ttype=INT", "default=65536"), none);
        // The machine's choice is no one's, unless somebody set it.
        assert_eq!(both("default=1\tvalue=2\torigin=CONFIG\tmachine", "default=1"), ["Value 2 1 CONFIG - -"]);
        assert_eq!(both("default=1", "default=1\tvalue=2\torigin=SQL\tmachine"), ["Value 1 2 - SQL -"]);
        assert_eq!(both("default=1\tmachine", "default=1\tvalue=2"), ["Value 1 2 - - - (a)"]);
        assert_eq!(both("value=1\torigin=AUTO\tmachine", "value=2\tmachine"), ["Value 1 2 AUTO - -"]);
        assert_eq!(both("value=1\tmachine", "value=2\torigin=AUTO"), ["Value 1 2 - AUTO -"]);
        let dynamic = one(
            ("options variables", "default=1\ttype=INT\tvariable\tmachine"),
            ("options variables", "default=1\ttype=INT\tvariable\tfixed\tmachine"),
        );
        assert_eq!(dynamic, ["Dynamic SET GLOBAL restart - - -"]);
    }

    #[test]
    fn all_values_of_a_list_count() {
        let of = |value: &str| {
            side("variables", &format!("replicate_do_db\tvalue={value}\torigin=CONFIG\ttype=VARCHAR\n"))
        };
        assert_eq!(told(&of("x,y"), &of("y,x")), Vec::<String>::new());
        assert_eq!(told(&of("x,y"), &of("y")), ["Value replicate_do_db x,y y"]);
    }

    #[test]
    fn a_file_is_compared_by_its_own_lines() {
        let file =
            side("", "a\tvalue=1\torigin=CONFIG\tfile=my.cnf:3\nb\tvalue=5\torigin=CONFIG\tfile=my.cnf:4\n");
        let series = side(
            "options variables",
            "a\tdefault=1\toption=none\nb\tdefault=2\toption=none\nc\tdefault=3\toption=none\n",
        );
        assert_eq!(told(&file, &series), ["Value b 5 2"]);
        assert_eq!(told(&series, &file), ["Value b 2 5"]);
        let other = side("", "a\tvalue=1\torigin=CONFIG\nd\tvalue=4\torigin=CONFIG\n");
        assert_eq!(told(&file, &other), ["Added d - 4", "Removed b 5 -"]);
    }
}
