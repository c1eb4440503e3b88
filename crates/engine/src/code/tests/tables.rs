//! Instructions that random programs are made of.

use iced_x86::{Code, IcedError, Instruction};

/// Two-operand arithmetic by width: register or memory, then register.
pub const ARITHMETIC: [[Code; 4]; 12] = [
    [Code::Add_rm8_r8, Code::Add_rm16_r16, Code::Add_rm32_r32, Code::Add_rm64_r64],
    [Code::Or_rm8_r8, Code::Or_rm16_r16, Code::Or_rm32_r32, Code::Or_rm64_r64],
    [Code::Adc_rm8_r8, Code::Adc_rm16_r16, Code::Adc_rm32_r32, Code::Adc_rm64_r64],
    [Code::Sbb_rm8_r8, Code::Sbb_rm16_r16, Code::Sbb_rm32_r32, Code::Sbb_rm64_r64],
    [Code::And_rm8_r8, Code::And_rm16_r16, Code::And_rm32_r32, Code::And_rm64_r64],
    [Code::Sub_rm8_r8, Code::Sub_rm16_r16, Code::Sub_rm32_r32, Code::Sub_rm64_r64],
    [Code::Xor_rm8_r8, Code::Xor_rm16_r16, Code::Xor_rm32_r32, Code::Xor_rm64_r64],
    [Code::Cmp_rm8_r8, Code::Cmp_rm16_r16, Code::Cmp_rm32_r32, Code::Cmp_rm64_r64],
    [Code::Test_rm8_r8, Code::Test_rm16_r16, Code::Test_rm32_r32, Code::Test_rm64_r64],
    [Code::Mov_rm8_r8, Code::Mov_rm16_r16, Code::Mov_rm32_r32, Code::Mov_rm64_r64],
    [Code::Xadd_rm8_r8, Code::Xadd_rm16_r16, Code::Xadd_rm32_r32, Code::Xadd_rm64_r64],
    [Code::Cmpxchg_rm8_r8, Code::Cmpxchg_rm16_r16, Code::Cmpxchg_rm32_r32, Code::Cmpxchg_rm64_r64],
];
pub const XADD: usize = 10;

pub const UNARY: [[Code; 4]; 4] = [
    [Code::Inc_rm8, Code::Inc_rm16, Code::Inc_rm32, Code::Inc_rm64],
    [Code::Dec_rm8, Code::Dec_rm16, Code::Dec_rm32, Code::Dec_rm64],
    [Code::Neg_rm8, Code::Neg_rm16, Code::Neg_rm32, Code::Neg_rm64],
    [Code::Not_rm8, Code::Not_rm16, Code::Not_rm32, Code::Not_rm64],
];

pub const SHIFTS: [[Code; 4]; 7] = [
    [Code::Shl_rm8_imm8, Code::Shl_rm16_imm8, Code::Shl_rm32_imm8, Code::Shl_rm64_imm8],
    [Code::Shr_rm8_imm8, Code::Shr_rm16_imm8, Code::Shr_rm32_imm8, Code::Shr_rm64_imm8],
    [Code::Sar_rm8_imm8, Code::Sar_rm16_imm8, Code::Sar_rm32_imm8, Code::Sar_rm64_imm8],
    [Code::Rol_rm8_imm8, Code::Rol_rm16_imm8, Code::Rol_rm32_imm8, Code::Rol_rm64_imm8],
    [Code::Ror_rm8_imm8, Code::Ror_rm16_imm8, Code::Ror_rm32_imm8, Code::Ror_rm64_imm8],
    [Code::Rcl_rm8_imm8, Code::Rcl_rm16_imm8, Code::Rcl_rm32_imm8, Code::Rcl_rm64_imm8],
    [Code::Rcr_rm8_imm8, Code::Rcr_rm16_imm8, Code::Rcr_rm32_imm8, Code::Rcr_rm64_imm8],
];

pub const SHIFTS_BY_CL: [Code; 7] = [
    Code::Shl_rm64_CL,
    Code::Shr_rm32_CL,
    Code::Sar_rm64_CL,
    Code::Rol_rm64_CL,
    Code::Ror_rm32_CL,
    Code::Rcl_rm64_CL,
    Code::Rcr_rm64_CL,
];

pub const JUMPS: [Code; 16] = [
    Code::Jo_rel32_64,
    Code::Jno_rel32_64,
    Code::Jb_rel32_64,
    Code::Jae_rel32_64,
    Code::Je_rel32_64,
    Code::Jne_rel32_64,
    Code::Jbe_rel32_64,
    Code::Ja_rel32_64,
    Code::Js_rel32_64,
    Code::Jns_rel32_64,
    Code::Jp_rel32_64,
    Code::Jnp_rel32_64,
    Code::Jl_rel32_64,
    Code::Jge_rel32_64,
    Code::Jle_rel32_64,
    Code::Jg_rel32_64,
];

pub const SETS: [Code; 16] = [
    Code::Seto_rm8,
    Code::Setno_rm8,
    Code::Setb_rm8,
    Code::Setae_rm8,
    Code::Sete_rm8,
    Code::Setne_rm8,
    Code::Setbe_rm8,
    Code::Seta_rm8,
    Code::Sets_rm8,
    Code::Setns_rm8,
    Code::Setp_rm8,
    Code::Setnp_rm8,
    Code::Setl_rm8,
    Code::Setge_rm8,
    Code::Setle_rm8,
    Code::Setg_rm8,
];

pub const MOVES_IF: [Code; 6] = [
    Code::Cmovo_r64_rm64,
    Code::Cmovb_r32_rm32,
    Code::Cmove_r64_rm64,
    Code::Cmovs_r64_rm64,
    Code::Cmovl_r32_rm32,
    Code::Cmovbe_r64_rm64,
];

pub const COUNTED_JUMPS: [Code; 6] = [
    Code::Loop_rel8_64_RCX,
    Code::Loop_rel8_64_ECX,
    Code::Loope_rel8_64_RCX,
    Code::Loopne_rel8_64_RCX,
    Code::Loope_rel8_64_ECX,
    Code::Loopne_rel8_64_ECX,
];

pub const STRINGS: [fn(u32) -> Result<Instruction, IcedError>; 5] = [
    Instruction::with_rep_movsb,
    Instruction::with_rep_stosq,
    Instruction::with_repe_cmpsb,
    Instruction::with_repne_scasb,
    Instruction::with_rep_lodsd,
];
