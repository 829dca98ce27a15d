//! Models for the tests: small ones, trained once.

use std::sync::OnceLock;

use urlpack::{Family, Model, Options, measure, train};

/// URLs like those of a shop and a wiki, always the same ones.
pub(crate) fn urls() -> Vec<Vec<u8>> {
    let hosts = ["www.example.com", "shop.example.org", "en.example.net", "a.b.example", "example.com:8080"];
    let paths =
        ["index.html", "catalog/item", "wiki/Main_Page", "search?q=fish", "%E6%97%A5%e6%9c%ac", "a/b/c/d"];
    let mut urls = Vec::new();
    for number in 0..2_000usize {
        let host = hosts[number * 7 % hosts.len()];
        let path = paths[number * 11 % paths.len()];
        let scheme = if number % 3 == 0 { "https" } else { "http" };
        urls.push(format!("{scheme}://{host}/{path}/{}", number * 2_654_435_761 % 100_003).into_bytes());
    }
    urls
}

fn trained(strings: &[Vec<u8>], size_max: usize, number: u8) -> Model {
    let mut options = Options::new(size_max);
    options.number = number;
    options.note = "test".to_owned();
    Model::from_bytes(train(strings, &options, &mut |_| {}).unwrap()).unwrap()
}

/// Models of different kinds: large, small, with a number of its own, trained on bytes, trained on nothing.
pub(crate) fn models() -> &'static [Model] {
    static MODELS: OnceLock<Vec<Model>> = OnceLock::new();
    MODELS.get_or_init(|| {
        let urls = urls();
        let bytes: Vec<Vec<u8>> = (0..400usize)
            .map(|n| (0..n % 23).map(|i| u8::try_from(n * 31 % 251 + i * i % 5).unwrap()).collect())
            .collect();
        vec![
            trained(&urls, 200_000, 0),
            trained(&urls, 8_000, 0),
            trained(&urls, 60_000, 15),
            trained(&bytes, 60_000, 1),
            Model::from_bytes(trained(&urls, 60_000, 0).relabelled(0, 1).unwrap()).unwrap(),
            Model::from_bytes(trained(&urls, 60_000, 0).relabelled(7, 4).unwrap()).unwrap(),
            trained(&[Vec::new()], 8_000, 0),
        ]
    })
}

#[test]
fn limit_is_kept() {
    let sizes: Vec<usize> = models().iter().map(|model| model.info().size).collect();
    for (size, limit) in sizes.into_iter().zip([200_000, 8_000, 60_000, 60_000, 60_000, 60_000, 8_000]) {
        assert!(size <= limit, "{size} > {limit}");
    }
}

#[test]
fn training_is_repeatable() {
    let mut urls = urls();
    let first = train(&urls, &Options::new(50_000), &mut |_| {}).unwrap();
    urls.reverse();
    assert!(
        first == train(&urls, &Options::new(50_000), &mut |_| {}).unwrap(),
        "the order of strings mattered"
    );
}

#[test]
fn a_model_packs_its_training_data_well() {
    let urls = urls();
    let strings: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    let measured = measure(&models()[0], &strings, 10_000, 1);
    assert!(measured.ratio() < 0.15, "{measured:?}");
    assert_eq!((measured.round_trip_wrong, measured.order_wrong, measured.prefix_wrong), (0, 0, 0));
}

#[test]
fn training_refuses() {
    let none: [&[u8]; 0] = [];
    assert!(train(none, &Options::new(8_000), &mut |_| {}).is_err());
    assert!(train([b"a"], &Options::new(500), &mut |_| {}).is_err());
    let mut options = Options::new(8_000);
    options.number = 16;
    assert!(train([b"a"], &options, &mut |_| {}).is_err());
}

#[test]
fn number_changes_only_the_name() {
    let model = &models()[0];
    let other = Model::from_bytes(model.relabelled(3, 0).unwrap()).unwrap();
    let (mut packed, mut back) = (Vec::new(), Vec::new());
    other.pack(b"http://www.example.com/", &mut packed);
    assert_eq!(urlpack::number_of(&packed), Ok(3));
    assert_eq!(model.unpack(&packed, &mut back, 100), Err(urlpack::Error::OtherModel { found: 3, ours: 0 }));
    other.unpack(&packed, &mut back, 100).unwrap();
    assert_eq!(back, b"http://www.example.com/");
}

/// The model that ships, on the list that ships: no value out of order, no wrong range, and no size larger
/// than before.
#[test]
fn the_built_in_model_keeps_its_promises() {
    let list = include_bytes!("../../../../demo/urls_world.txt");
    let urls: Vec<&[u8]> = list.split(|&byte| byte == b'\n').filter(|url| !url.is_empty()).collect();
    let measured = measure(&Model::from_bytes(Family::Url.built_in()).unwrap(), &urls, 20_000, 7);
    assert_eq!((measured.order_wrong, measured.prefix_wrong, measured.round_trip_wrong), (0, 0, 0));
    assert!(measured.ratio() < 0.26, "{}", measured.ratio());
}

/// Values packed with a built-in model lie in tables, and name it by number 0 alone. With another model under
/// that number, every such value would become another string, without any error. So these two never change: a
/// better model gets its own name and number.
#[test]
fn the_built_in_models_are_those_that_values_were_packed_with() {
    let known = [(Family::Url, 0x5cd6_cb87_ef33_8ff2), (Family::Text, 0x7546_7028_9336_80c2)];
    for (family, checksum) in known {
        let model = Model::from_bytes(family.built_in()).unwrap();
        let info = model.info();
        assert_eq!((info.checksum, info.number, info.check_bytes), (checksum, 0, 0), "{family:?}");
    }
}

#[test]
fn the_text_model_keeps_its_promises() {
    let strings = [
        "Mary Smith",
        "mary.smith@example.com",
        "/usr/share/doc/README.gz",
        "{\"id\":17,\"name\":\"x\"}",
        "house",
        "",
        "\0\u{ff}",
    ];
    let strings: Vec<&[u8]> = strings.iter().map(|string| string.as_bytes()).collect();
    let measured = measure(&Model::from_bytes(Family::Text.built_in()).unwrap(), &strings, 2_000, 7);
    assert_eq!((measured.order_wrong, measured.prefix_wrong, measured.round_trip_wrong), (0, 0, 0));
    assert!(measured.ratio() < 0.45, "{}", measured.ratio());
}

/// A check of a given number of bytes lets few values pass that were cut, or that come from another model
/// with the same number.
#[test]
fn a_check_refuses_cut_and_foreign_values() {
    let urls = urls();
    let passed = |check_bytes: u8| {
        let ours = Model::from_bytes(trained(&urls, 60_000, 1).relabelled(1, check_bytes).unwrap()).unwrap();
        let other =
            Model::from_bytes(trained(&urls[..500], 60_000, 1).relabelled(1, check_bytes).unwrap()).unwrap();
        let (mut cut, mut foreign) = (0, 0);
        for url in &urls {
            let (mut packed, mut back) = (Vec::new(), Vec::new());
            ours.pack(url, &mut packed);
            foreign += usize::from(other.unpack(&packed, &mut back, 10_000).is_ok());
            packed.pop();
            cut += usize::from(ours.unpack(&packed, &mut back, 10_000).is_ok());
        }
        (cut, foreign)
    };
    let (cut, foreign) = passed(0);
    assert!(cut > 1_000 && foreign > 500, "of 2,000 without a check {cut} and {foreign} pass");
    let (cut, foreign) = passed(1);
    assert!(cut < 40 && foreign < 40, "{cut} {foreign}");
    assert_eq!(passed(2), (0, 0));
}

#[test]
fn a_model_draws_strings_like_those_it_knows() {
    let model = &models()[0];
    let (mut drawn, mut like) = (0, 0);
    model.draw(100_000, 1, |string| {
        drawn += 1;
        like += usize::from(string.starts_with(b"http://") || string.starts_with(b"https://"));
    });
    assert!(drawn > 1_000 && like * 10 > drawn * 9, "{like} of {drawn}");
}
