//! Data types: round trips through names, widths, and valid combinations.

use dlbridge::sys::{DLDataType, DLDataTypeCode};
use dlbridge::{DataType, DataTypeCode, Device, DeviceType, Error};

/// Every constant, its name, its code in `dlpack.h`, its bits, and the bytes of an element.
const CONSTANTS: &[(DataType, &str, u8, u8, usize)] = &[
    (DataType::INT2, "int2", 0, 2, 1),
    (DataType::INT4, "int4", 0, 4, 1),
    (DataType::INT8, "int8", 0, 8, 1),
    (DataType::INT16, "int16", 0, 16, 2),
    (DataType::INT32, "int32", 0, 32, 4),
    (DataType::INT64, "int64", 0, 64, 8),
    (DataType::INT128, "int128", 0, 128, 16),
    (DataType::UINT1, "uint1", 1, 1, 1),
    (DataType::UINT2, "uint2", 1, 2, 1),
    (DataType::UINT4, "uint4", 1, 4, 1),
    (DataType::UINT8, "uint8", 1, 8, 1),
    (DataType::UINT16, "uint16", 1, 16, 2),
    (DataType::UINT32, "uint32", 1, 32, 4),
    (DataType::UINT64, "uint64", 1, 64, 8),
    (DataType::UINT128, "uint128", 1, 128, 16),
    (DataType::FLOAT16, "float16", 2, 16, 2),
    (DataType::FLOAT32, "float32", 2, 32, 4),
    (DataType::FLOAT64, "float64", 2, 64, 8),
    (DataType::BFLOAT16, "bfloat16", 4, 16, 2),
    (DataType::COMPLEX32, "complex32", 5, 32, 4),
    (DataType::COMPLEX64, "complex64", 5, 64, 8),
    (DataType::COMPLEX128, "complex128", 5, 128, 16),
    (DataType::BOOL, "bool", 6, 8, 1),
    (DataType::FLOAT8_E3M4, "float8_e3m4", 7, 8, 1),
    (DataType::FLOAT8_E4M3, "float8_e4m3", 8, 8, 1),
    (DataType::FLOAT8_E4M3B11FNUZ, "float8_e4m3b11fnuz", 9, 8, 1),
    (DataType::FLOAT8_E4M3FN, "float8_e4m3fn", 10, 8, 1),
    (DataType::FLOAT8_E4M3FNUZ, "float8_e4m3fnuz", 11, 8, 1),
    (DataType::FLOAT8_E5M2, "float8_e5m2", 12, 8, 1),
    (DataType::FLOAT8_E5M2FNUZ, "float8_e5m2fnuz", 13, 8, 1),
    (DataType::FLOAT8_E8M0FNU, "float8_e8m0fnu", 14, 8, 1),
    (DataType::FLOAT6_E2M3FN, "float6_e2m3fn", 15, 6, 1),
    (DataType::FLOAT6_E3M2FN, "float6_e3m2fn", 16, 6, 1),
    (DataType::FLOAT4_E2M1FN, "float4_e2m1fn", 17, 4, 1),
];

fn of(code: u8, bits: u8, lanes: u16) -> DataType {
    DataType::new(DataTypeCode::from_code(code), bits, lanes)
}

#[test]
#[cfg_attr(miri, ignore = "many, and nothing unsafe")]
fn every_constant_round_trips_through_its_name() {
    for &(dtype, name, code, bits, itemsize) in CONSTANTS {
        assert_eq!(dtype, of(code, bits, 1), "{name}");
        assert_eq!(dtype.to_string(), name);
        assert_eq!(format!("{dtype:?}"), name);
        assert_eq!(name.parse(), Ok(dtype));
        assert_eq!((dtype.bits(), dtype.itemsize()), (bits, itemsize), "{name}");
        assert_eq!(dtype.is_subbyte(), bits < 8, "{name}");
        assert_eq!(dtype.check(), Ok(()), "{name}");
        let c = DLDataType { code: DLDataTypeCode(code), bits, lanes: 1 };
        assert_eq!((DLDataType::from(dtype), DataType::from(c)), (c, dtype), "{name}");
        for lanes in [2, u16::MAX] {
            let vector = dtype.with_lanes(lanes);
            assert_eq!(vector.to_string(), format!("{name}x{lanes}"));
            assert_eq!(vector.to_string().parse(), Ok(vector));
        }
    }
}

#[test]
fn odd_combinations_have_names() {
    for (dtype, name) in [
        (of(0, 4, 1), "int4"),
        (of(1, 1, 1), "uint1"),
        (of(0, 255, 1), "int255"),
        (of(2, 32, 4), "float32x4"),
        (of(2, 80, 1), "float80"),
        (of(2, 8, 1), "float8"),
        (of(4, 16, 2), "bfloat16x2"),
        (of(5, 64, 2), "complex64x2"),
        (of(3, 64, 1), "handle64"),
        (of(42, 16, 3), "code42_16x3"),
        (of(255, 255, u16::MAX), "code255_255x65535"),
        // A known code with another width than its own lacks a short name.
        (of(6, 1, 1), "code6_1"),
        (of(15, 8, 1), "code15_8"),
        (of(17, 8, 2), "code17_8x2"),
        (of(10, 16, 1), "code10_16"),
        // These cannot exist, but an error must be able to print them.
        (of(2, 0, 1), "float0"),
        (of(2, 32, 0), "float32x0"),
    ] {
        assert_eq!(dtype.to_string(), name);
        assert_eq!(name.parse(), Ok(dtype), "{name}");
    }
}

/// All possible dtypes, to the name and back.
#[test]
#[cfg_attr(miri, ignore = "many, and nothing unsafe")]
fn every_dtype_has_a_name_of_its_own() {
    for code in 0..=255 {
        for bits in 0..=255 {
            for lanes in [1, 2, 64] {
                let dtype = of(code, bits, lanes);
                assert_eq!(dtype.to_string().parse(), Ok(dtype), "{dtype}");
            }
        }
    }
}

#[test]
fn bad_names_are_refused() {
    for name in [
        "",
        " ",
        "x",
        "x2",
        "float",
        "int",
        "uint",
        "complex",
        "handle",
        "float32 ",
        " float32",
        "Float32",
        "FLOAT32",
        "f32",
        "float032",
        "float+32",
        "float-32",
        "float3_2",
        "float256",
        "float32x",
        "float32x65536",
        "float32x-1",
        "float32x01",
        "float32xx2",
        "float32x2x2",
        "x2float32",
        "float8_e4m3fnx",
        "float8_e4m3f",
        "float8_e9m9",
        "float6_e2m3fn8",
        "bool8",
        "bool1",
        "boolean",
        "double",
        "code",
        "code1",
        "code1_",
        "code_1",
        "code256_8",
        "code1_256",
        "code01_8",
        "code1_08",
        "code1_8_",
        "code-1_8",
        "int\u{663}2",
        "int32\0",
        "çode1_8",
    ] {
        assert_eq!(name.parse::<DataType>(), Err(Error::UnknownDataTypeName), "{name:?}");
    }
}

#[test]
fn widths_count_all_lanes_and_round_up() {
    let widths = |dtype: DataType| (dtype.element_bits(), dtype.itemsize(), dtype.is_subbyte());
    assert_eq!(widths(of(0, 4, 1)), (4, 1, true));
    assert_eq!(widths(of(0, 4, 2)), (8, 1, false));
    assert_eq!(widths(of(0, 4, 3)), (12, 2, true));
    assert_eq!(widths(DataType::FLOAT6_E2M3FN.with_lanes(4)), (24, 3, false));
    assert_eq!(widths(of(1, 1, 9)), (9, 2, true));
    assert_eq!(widths(DataType::FLOAT32.with_lanes(4)), (128, 16, false));
    assert_eq!(widths(of(2, 255, u16::MAX)), (16_711_425, 2_088_929, true));
}

#[test]
fn dtype_without_bits_or_lanes_or_with_another_width_is_refused() {
    let possible = |code, bits, lanes| of(code, bits, lanes).check().is_ok();
    for code in (0..=255).filter(|code| !cfg!(miri) || *code < 20) {
        assert!(!possible(code, 0, 1) && !possible(code, 8, 0), "{code}");
        // All codes except the small floats take any width.
        let own = match code {
            7..=14 => Some(8),
            15 | 16 => Some(6),
            17 => Some(4),
            _ => None,
        };
        for bits in [1, 4, 6, 7, 8, 16, 255] {
            assert_eq!(possible(code, bits, 3), own.is_none_or(|own| own == bits), "{code} {bits}");
        }
    }
    let wrong = of(17, 8, 1);
    assert_eq!(wrong.check(), Err(Error::InvalidDataType { dtype: wrong }));
}

#[test]
fn names_respect_width_and_alignment_of_the_format() {
    assert_eq!(
        format!("{:>9}|{:<9}|", DataType::INT8, DataType::FLOAT32.with_lanes(2)),
        "     int8|float32x2|"
    );
    assert_eq!(format!("{:-^7}", Device::CPU), "--cpu--");
    assert_eq!(format!("{:<8}|", Device::new(DeviceType::CUDA, 1)), "cuda:1  |");
}

#[test]
fn codes_have_names() {
    assert_eq!(format!("{:?}", DataTypeCode::BFLOAT), "bfloat");
    assert_eq!(format!("{:?}", DataTypeCode::FLOAT8_E8M0FNU), "float8_e8m0fnu");
    assert_eq!(format!("{:?}", DataTypeCode::from_code(99)), "code99");
    assert_eq!(DataTypeCode::from_code(99).code(), 99);
}
