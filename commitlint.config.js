/** Advice on commit subjects, `area: imperative`: `make lint-commits`. No gate depends on it. */
export default {
  parserPreset: { parserOpts: { headerPattern: /^([^:]+): (.+)$/, headerCorrespondence: ['type', 'subject'] } },
  rules: {
    'type-empty': [2, 'never'],
    'subject-empty': [2, 'never'],
    'header-max-length': [2, 'always', 72],
    'subject-full-stop': [2, 'never', '.'],
    'body-leading-blank': [2, 'always'],
    'body-empty': [1, 'never'],
  },
};
