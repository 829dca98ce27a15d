//! Models for the tests: small ones, trained once.

use std::sync::OnceLock;

use urlpack::{Model, Options, SMALL, measure, train};

/// URLs as a shop and a wiki have them, always the same ones.
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

/// Models of different kinds: roomy, cramped, under a number of its own, trained on bytes, trained on nothing.
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
            trained(&[Vec::new()], 8_000, 0),
        ]
    })
}

#[test]
fn limit_is_kept() {
    let sizes: Vec<usize> = models().iter().map(|model| model.info().size).collect();
    for (size, limit) in sizes.into_iter().zip([200_000, 8_000, 60_000, 60_000, 8_000]) {
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
fn packs_what_it_was_trained_on() {
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

/// The model that ships, on the list that ships: nothing out of order, no wrong range, and no larger than it was.
#[test]
fn the_built_in_model_keeps_its_promises() {
    let list = include_bytes!("../../../../demo/urls_world.txt");
    let urls: Vec<&[u8]> = list.split(|&byte| byte == b'\n').filter(|url| !url.is_empty()).collect();
    let measured = measure(&Model::from_bytes(SMALL).unwrap(), &urls, 20_000, 7);
    assert_eq!((measured.order_wrong, measured.prefix_wrong, measured.round_trip_wrong), (0, 0, 0));
    assert!(measured.ratio() < 0.26, "{}", measured.ratio());
}
