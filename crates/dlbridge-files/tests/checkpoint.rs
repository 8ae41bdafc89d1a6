//! Files of `torch.save`, made byte by byte: what is read, and hostile ones, which are refused.
#![cfg(feature = "npz")]

mod archives;
mod common;
mod crafted;

use std::io::Cursor;

use archives::{Member, archive, stored};
use crafted::{assert_refused_by, open, read};
use dlbridge::{DataType, MAX_NDIM, Tensor};
use dlbridge_files::{Fault, TensorFile, Value};

/// An archive of a pickle and one storage, whose bytes are 0, 1, 2 and so on.
fn saved(pickle: &[u8]) -> Vec<u8> {
    archive(&members(pickle), false)
}

fn members(pickle: &[u8]) -> Vec<Member> {
    let bytes: Vec<u8> = (0..64).collect();
    vec![stored("m/data.pkl", pickle), stored("m/data/0", bytes)]
}

/// A pickle of the protocol 2.
fn pickle(content: &[u8]) -> Vec<u8> {
    [b"\x80\x02", content, b"."].concat()
}

/// A dict of one entry.
fn dict(key: &str, value: &[u8]) -> Vec<u8> {
    [b"}", &text(key)[..], value, b"s"].concat()
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &items.concat()[..], b"t"].concat()
}

fn int(number: i32) -> Vec<u8> {
    [b"J", &number.to_le_bytes()[..]].concat()
}

fn ints(numbers: &[i32]) -> Vec<u8> {
    tuple(&numbers.iter().map(|&number| int(number)).collect::<Vec<_>>())
}

/// The call of a function, given as in a pickle: a module, a space and a name.
fn call(function: &str, arguments: &[Vec<u8>]) -> Vec<u8> {
    [&global(function)[..], &tuple(arguments), b"R"].concat()
}

fn global(name: &str) -> Vec<u8> {
    format!("c{}\n", name.replace(' ', "\n")).into_bytes()
}

/// The arguments of a tensor's description, without those that are the same for all.
fn view(class: &str, offset: i32, shape: &[i32], strides: &[i32]) -> Vec<Vec<u8>> {
    let id = [text("storage"), global(class), text("0"), text("cpu"), int(16)];
    let storage = [tuple(&id), b"Q".to_vec()].concat();
    vec![storage, int(offset), ints(shape), ints(strides), b"\x89".to_vec(), b"N".to_vec()]
}

fn tensor(class: &str, offset: i32, shape: &[i32], strides: &[i32]) -> Vec<u8> {
    call("torch._utils _rebuild_tensor_v2", &view(class, offset, shape, strides))
}

fn bytes(shape: &[i32], strides: &[i32]) -> Vec<u8> {
    tensor("torch ByteStorage", 3, shape, strides)
}

fn value(pickled: &[u8]) -> TensorFile {
    open(&saved(&pickle(&dict("x", pickled)))).unwrap()
}

/// Asserts that a pickle is refused.
#[track_caller]
fn assert_refused(content: &[u8], message: &str) {
    assert_file_refused(&saved(&pickle(content)), message);
}

#[track_caller]
fn assert_file_refused(file: &[u8], message: &str) {
    let error = open(file).unwrap_err().to_string();
    assert!(error.contains("PyTorch file") && error.ends_with(message), "{error}");
}

/// Asserts that a value is refused when it is asked for, and the tensor beside it is not.
#[track_caller]
fn assert_hidden(value: &[u8], message: &str) {
    let entries = [b"}(", &text("x")[..], value, &text("y"), &bytes(&[2], &[1]), b"u"].concat();
    let file = open(&saved(&pickle(&entries))).unwrap();
    assert_eq!(file.tensors().keys().collect::<Vec<_>>(), ["y"]);
    assert_eq!(file.refused()["x"], message);
    let error = file.tensor("x").unwrap_err();
    assert!(matches!(error.fault(), Fault::Refused { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("tensor \"x\": {message}"));
}

fn elements(tensor: &Tensor) -> Vec<u8> {
    tensor.view::<u8>().unwrap().to_vec()
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow")]
fn views_of_a_storage_have_their_strides() {
    let entries = [
        (text("a"), bytes(&[2, 3], &[3, 1])),
        (text("b"), bytes(&[2, 3], &[1, 2])),
        (text("c"), bytes(&[2, 2], &[0, 4])),
        (text("d"), bytes(&[], &[])),
        (text("e"), bytes(&[0, 5], &[5, 1])),
        (int(6), bytes(&[2], &[60])),
    ];
    let entries: Vec<u8> =
        entries.iter().flat_map(|(key, value)| [&key[..], value].concat()).collect();
    let file = saved(&pickle(&[b"}(", &entries[..], b"u"].concat()));
    let of_bytes = TensorFile::from_bytes(file.clone()).unwrap();
    let of_reader = TensorFile::from_reader(Cursor::new(file.clone())).unwrap();
    for file in [read(&file), of_bytes, of_reader] {
        let names: Vec<&String> = file.tensors().keys().collect();
        assert_eq!(names, ["a", "b", "c", "d", "e", "6"]);
        let found = |name: &str| elements(&file.tensor(name).unwrap());
        assert_eq!(found("a"), [3, 4, 5, 6, 7, 8]);
        assert_eq!(found("b"), [3, 5, 7, 4, 6, 8]);
        assert_eq!(file.tensor("b").unwrap().strides(), [1, 2]);
        assert_eq!(found("c"), [3, 7, 3, 7]);
        assert_eq!(found("d"), [3]);
        assert_eq!(file.tensor("e").unwrap().shape(), [0, 5]);
        assert_eq!(found("6"), [3, 63]);
        let mut private = file.private_tensor("b").unwrap();
        private.view_mut::<u8>().unwrap()[[1, 2]] = 0;
        assert_eq!(found("b"), [3, 5, 7, 4, 6, 8]);
    }
}

#[test]
fn nested_values_have_names_of_keys_and_numbers() {
    let items = [&b"]("[..], &dict("t", &bytes(&[1], &[1])), b"K\x07", b"e"].concat();
    let file = value(&items);
    assert_eq!(file.tensors().keys().collect::<Vec<_>>(), ["x.0.t"]);
    assert_eq!(file.metadata()["x.1"], Value::Int(7));
    assert!(!file.is_single());
}

#[test]
fn tensor_alone_has_no_name() {
    let file = open(&saved(&pickle(&bytes(&[1], &[1])))).unwrap();
    assert!(file.is_single());
    assert_eq!(file.tensors()[""].shape, [1]);
}

#[test]
fn values_are_metadata() {
    let long = b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00";
    for (pickled, value) in [
        (&b"N"[..], Value::Null),
        (b"\x88", Value::Bool(true)),
        (b"M\x01\x02", Value::Int(513)),
        (b"\x8a\x01\xff", Value::Int(-1)),
        (b"\x8a\x00", Value::Int(0)),
        (long, Value::Uint(u64::MAX)),
        (b"G\x3f\xf8\x00\x00\x00\x00\x00\x00", Value::Float(1.5)),
        (b"U\x02hi", Value::Text("hi".into())),
        (b"X\x03\x00\x00\x00\xed\xa0\x80", Value::Text("\u{fffd}\u{fffd}\u{fffd}".into())),
        (b"K\x01K\x02\x86", Value::Array(vec![Value::Int(1), Value::Int(2)])),
        (b"]Na", Value::Array(vec![Value::Null])),
        (b"ctorch\nfloat16\n", Value::Text("torch.float16".into())),
        (b"ctorch\ndevice\nU\x04cuda\x85R", Value::Text("cuda".into())),
        (b"ctorch\nSize\nK\x03\x85\x85R", Value::Array(vec![Value::Int(3)])),
    ]
    .into_iter()
    .step_by(if cfg!(miri) { 5 } else { 1 })
    {
        assert_eq!(self::value(pickled).metadata()["x"], value);
    }
}

#[test]
fn parameters_and_ordered_dicts_are_what_they_wrap() {
    let none = || b"N".to_vec();
    let inner = || bytes(&[1], &[1]);
    let parameter = call("torch._utils _rebuild_parameter", &[inner(), none(), none()]);
    let function = global("torch._utils _rebuild_tensor_v2");
    let typed = |class: &str| {
        let of_inner = tuple(&view("torch ByteStorage", 0, &[1], &[1]));
        let arguments = [function.clone(), global(class), of_inner, none()];
        call("torch._tensor _rebuild_from_type_v2", &arguments)
    };
    for value in [parameter, typed("torch Tensor"), typed("torch.nn.parameter Buffer")] {
        let ordered = [&b"ccollections\nOrderedDict\n)R"[..], &text("x"), &value, b"s}b"].concat();
        assert_eq!(open(&saved(&pickle(&ordered))).unwrap().tensors()["x"].shape, [1]);
    }
    let message = "it needs torchao.Packed, which no state dict needs; save that, or use torch.load if you trust the file";
    assert_hidden(&typed("torchao Packed"), message);
}

#[test]
fn dtypes_of_storages_and_newer_ones_are_known() {
    let few = if cfg!(miri) { 3 } else { 1 };
    let classes = [
        ("torch FloatStorage", DataType::FLOAT32),
        ("torch BFloat16Storage", DataType::BFLOAT16),
        ("torch BoolStorage", DataType::BOOL),
        ("torch ComplexDoubleStorage", DataType::COMPLEX128),
    ];
    for (class, dtype) in classes.into_iter().step_by(few) {
        assert_eq!(value(&tensor(class, 1, &[2], &[1])).tensors()["x"].dtype, dtype);
    }
    let names = [
        ("uint16", DataType::UINT16),
        ("float8_e4m3fn", DataType::FLOAT8_E4M3FN),
        ("float4_e2m1fn_x2", DataType::FLOAT4_E2M1FN.with_lanes(2)),
    ];
    for (name, dtype) in names.into_iter().step_by(few) {
        let mut view = view("torch.storage UntypedStorage", 1, &[2], &[1]);
        view.push(global(&format!("torch {name}")));
        let rebuilt = call("torch._utils _rebuild_tensor_v3", &view);
        assert_eq!(value(&rebuilt).tensors()["x"].dtype, dtype);
    }
}

#[test]
fn dtypes_that_pytorch_stores_in_another_way_are_hidden() {
    let names = ["uint4", "int128", "uint95", "float8_e3m4", "qint8"];
    for name in names.into_iter().step_by(if cfg!(miri) { 5 } else { 1 }) {
        let mut view = view("torch.storage UntypedStorage", 0, &[2], &[1]);
        view.push(global(&format!("torch {name}")));
        let message =
            format!("its elements are torch.{name}, which no tensor has; convert it first");
        assert_hidden(&call("torch._utils _rebuild_tensor_v3", &view), &message);
    }
}

#[test]
fn big_endian_storages_are_swapped() {
    let content = pickle(&dict("x", &tensor("torch ShortStorage", 1, &[2], &[2])));
    let mut members = members(&content);
    members.push(stored("m/byteorder", "big"));
    let tensor = read(&archive(&members, false)).tensor("x").unwrap();
    assert_eq!(tensor.view::<i16>().unwrap().to_vec(), [0x0203, 0x0607]);
    members[2] = stored("m/byteorder", "middle");
    assert_file_refused(&archive(&members, false), "its byte order is neither little nor big");
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow")]
fn values_of_other_code_are_hidden_by_its_name() {
    let advice = "which no state dict needs; save that, or use torch.load if you trust the file";
    let made = |name: &str| format!("it needs {name}, {advice}");
    assert_hidden(&call("os system", &[text("reboot")]), &made("os.system"));
    assert_hidden(
        &call("torch._utils os.system", &[text("reboot")]),
        &made("torch._utils.os.system"),
    );
    assert_hidden(&[&global("__main__ Net")[..], b")\x81}b"].concat(), &made("__main__.Net"));
    assert_hidden(&global("builtins eval"), &made("builtins.eval"));
    assert_hidden(
        b"\x8a\x11\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01",
        &made("an integer of more than 64 bits"),
    );
    let quantised =
        call("torch._utils _rebuild_qtensor", &view("torch QInt8Storage", 0, &[1], &[1]));
    assert_hidden(
        &quantised,
        "it needs torch._utils._rebuild_qtensor, which makes quantised tensors; save x.dequantize()",
    );
    let sparse = call("torch._utils _rebuild_sparse_tensor", &[]);
    assert_hidden(
        &sparse,
        "it needs torch._utils._rebuild_sparse_tensor, which makes sparse tensors; save x.to_dense()",
    );
    let quantised = tensor("torch QInt8Storage", 0, &[1], &[1]);
    assert_hidden(
        &quantised,
        "its elements are torch.QInt8Storage, which no tensor has; convert it first",
    );
    let mut conjugate = view("torch ComplexFloatStorage", 0, &[1], &[1]);
    conjugate.push(dict("conj", b"\x88"));
    let conjugate = call("torch._utils _rebuild_tensor_v2", &conjugate);
    assert_hidden(
        &conjugate,
        "its conjugate or negative bit is set; save x.resolve_conj().resolve_neg()",
    );
    assert_hidden(b"}NNs", "a key in it is neither text nor an integer");
    assert_hidden(b"U\x01a)R", "it is not part of a state dict");
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow")]
fn pickle_that_breaks_its_stack_or_memo_is_refused() {
    for (content, at) in [
        (&b""[..], 3),
        (b"0", 3),
        (b"(.", 4),
        (b"t", 3),
        (b"N\x86", 4),
        (b"N(\x85", 5),
        (b"h\x00", 4),
        (b"Nq\x01", 5),
        (b"NNa", 5),
        (b"]NNs", 6),
        (b"}(Nu", 6),
        (b"NNb", 5),
        (b"X\xff\xff\xff\xffa", 7),
        (b"cos\nsystem", 6),
        (b"\x8a\x05\x00", 4),
        (b"\x95", 3),
    ] {
        let message =
            format!("its pickle is damaged, or not that of a state dict, before byte {at}");
        assert_refused(content, &message);
    }
    let whole = pickle(&dict("x", &bytes(&[2], &[1])));
    for len in 0..whole.len() {
        assert!(open(&saved(&whole[..len])).is_err(), "{len}");
    }
}

#[test]
fn pickle_of_another_protocol_is_refused() {
    let message = "its pickle has protocol 4; save it without pickle_protocol";
    assert_file_refused(&saved(b"\x80\x04N."), message);
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow")]
fn damaged_description_of_a_tensor_is_refused() {
    let damaged = "the description of tensor \"x\" is damaged";
    let x = |value: &[u8]| dict("x", value);
    let rebuilt = |arguments: &[Vec<u8>]| x(&call("torch._utils _rebuild_tensor_v2", arguments));
    assert_refused(&rebuilt(&[]), damaged);
    assert_refused(&rebuilt(&[int(0), int(0), ints(&[]), ints(&[])]), damaged);
    assert_refused(&x(&bytes(&[1], &[])), damaged);
    assert_refused(&x(&bytes(&[-1], &[1])), damaged);
    assert_refused(&x(&bytes(&[2], &[-1])), damaged);
    assert_refused(&x(&tensor("torch ByteStorage", -1, &[1], &[1])), damaged);
    let many = [1; MAX_NDIM + 1];
    assert_refused(&x(&bytes(&many, &many)), damaged);
    assert_refused(&x(&bytes(&[i32::MAX; 5], &[i32::MAX; 5])), damaged);
    assert_refused(&x(&bytes(&[i32::MAX; 4], &[0; 4])), damaged);
    assert_refused(
        &x(&call("torch._utils _rebuild_tensor_v3", &view("torch A", 0, &[], &[]))),
        damaged,
    );
    let outside = "has 62 uint8 from element 3 of a storage of 64 bytes";
    assert_refused(&x(&bytes(&[62], &[1])), &format!("tensor \"x\" {outside}"));
    let outside = "has 2 int64 from element 7 of a storage of 64 bytes";
    let value = tensor("torch LongStorage", 7, &[2], &[1]);
    assert_refused(&x(&value), &format!("tensor \"x\" {outside}"));
    let none = archive(&[stored("m/data.pkl", pickle(&x(&bytes(&[1], &[1]))))], false);
    assert_file_refused(&none, damaged);
}

#[test]
fn names_of_two_values_are_hidden() {
    let entries = [
        (text("1"), bytes(&[], &[])),
        (int(1), bytes(&[], &[])),
        (text("2"), bytes(&[], &[])),
        (int(2), b"N".to_vec()),
        (text("a"), dict("b", b"N")),
        (text("a.b"), global("os system")),
        (text("y"), bytes(&[2], &[1])),
    ];
    let entries: Vec<u8> =
        entries.iter().flat_map(|(key, value)| [&key[..], value].concat()).collect();
    let file = open(&saved(&pickle(&[b"}(", &entries[..], b"u"].concat()))).unwrap();
    assert_eq!(file.tensors().keys().collect::<Vec<_>>(), ["y"]);
    assert!(file.metadata().is_empty());
    let reason = "two values have this name; rename one, or use torch.load".to_owned();
    assert!(
        file.refused().iter().eq(["1", "2", "a.b"].map(str::to_owned).iter().map(|n| (n, &reason)))
    );
    assert_eq!(file.tensor("1").unwrap_err().to_string(), format!("tensor \"1\": {reason}"));
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow")]
fn values_that_grow_without_bytes_are_refused() {
    let message = "its values are more than 64 deep, or have 32 times the bytes of the pickle";
    // A list that contains itself, and lists of the list before, twice each.
    assert_refused(b"]q\x00h\x00a", message);
    let mut doubled = b"]Na".to_vec();
    for nth in 0..40 {
        doubled.extend([b'q', nth, b'h', nth, 0x86]);
    }
    assert_refused(&doubled, message);
    // A long name, repeated for each of the many values behind it.
    let entries: Vec<u8> = (0..20_000).flat_map(|nth| [int(nth), b"N".to_vec()].concat()).collect();
    let many = [&b"}("[..], &entries, b"u"].concat();
    assert_refused(&dict(&"a".repeat(100_000), &many), message);
    let deep = [vec![b']'; 100], vec![b'a'; 99]].concat();
    assert_refused(&deep, message);
    assert_refused(&vec![b']'; (1 << 22) + 1], "its pickle has more than 4194304 objects");
}

#[test]
fn archives_of_other_programs_are_refused() {
    let with = |member| {
        let mut members = members(&pickle(b"N"));
        members.push(member);
        archive(&members, false)
    };
    let message = "it is a TorchScript archive; save the state_dict() of the module instead";
    assert_file_refused(&with(stored("m/constants.pkl", "")), message);
    let mut deflated = members(&pickle(&dict("x", &bytes(&[], &[]))));
    deflated[1].method = 8;
    let advice = "is compressed or encrypted; load it with torch.load, and save it again";
    let hidden = open(&archive(&deflated, false)).unwrap().tensor("x").unwrap_err();
    assert_eq!(hidden.to_string(), format!("tensor \"x\": its member \"m/data/0\" {advice}"));
    deflated[0].method = 8;
    let message = format!("its member \"m/data.pkl\" {advice}");
    assert_file_refused(&archive(&deflated, false), &message);
    let mut long = members(&pickle(&dict("x", &bytes(&[], &[]))));
    long[1].extra = vec![0; 4];
    assert!(open(&archive(&long, true)).is_ok());
    let legacy = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.".to_vec();
    let error = TensorFile::from_bytes(legacy).unwrap_err();
    assert_eq!(
        error.to_string(),
        "it is of PyTorch before 1.6; load it with torch.load, and save it again"
    );
    assert_refused(
        &call("__main__ Net", &[]),
        "it needs __main__.Net, which no state dict needs; save that, or use torch.load if you trust the file",
    );
    assert_refused_by(
        "npz",
        &archive(&[stored("m/other.pkl", "")], false),
        "none of its members is an .npy file, or the data.pkl of torch.save",
    );
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow")]
fn truncated_archive_is_refused() {
    let file = saved(&pickle(&dict("x", &bytes(&[2], &[1]))));
    for len in 0..file.len() {
        assert!(open(&file[..len]).is_err(), "{len}");
    }
}
